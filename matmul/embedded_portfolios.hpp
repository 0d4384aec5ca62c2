#pragma once

namespace tilewise {

/// One file of portfolios/*.json, as text. The table is generated at build time.
struct EmbeddedPortfolio {
  const char* name;
  const char* text;
};
extern const EmbeddedPortfolio kEmbeddedPortfolios[];
extern const int kEmbeddedPortfolioCount;

}  // namespace tilewise
