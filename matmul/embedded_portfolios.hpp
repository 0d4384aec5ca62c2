#pragma once

namespace tilewise {

/// The files portfolios/*.json, as text; generated at build time.
struct EmbeddedPortfolio {
  const char* name;
  const char* text;
};
extern const EmbeddedPortfolio kEmbeddedPortfolios[];
extern const int kEmbeddedPortfolioCount;

}  // namespace tilewise
