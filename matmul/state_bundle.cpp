// What a Matmul reads of a bundle, and the corrections of database and bundle.
#include <utility>

#include "matmul/state.hpp"
#include "matmul/stored_corrections.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

/// Adds what the bundle has for this GPU, behind what the database has: of two for one problem the
/// first serves. Its records have no id, since none of this database is theirs.
void Matmul::State::read_bundle(std::vector<Winner>& winners, std::vector<Record>& general) {
  const std::string gpu = gpu_key(device_->info());
  std::vector<Winner> shipped = bundle_->winners(gpu);
  if (shipped.empty()) {
    std::string gpus;
    for (const std::string& other : bundle_->gpus()) gpus += (gpus.empty() ? "" : ", ") + other;
    warn_once("the bundle " + bundle_->path().string() + " has nothing for " + gpu +
              "; it has: " + (gpus.empty() ? "nothing" : gpus));
  }
  for (Winner& winner : shipped) {
    winner.record.id = 0;
    winners.push_back(std::move(winner));
  }
  for (Record& record : bundle_->general(gpu)) {
    record.id = 0;
    general.push_back(std::move(record));
  }
  for (const std::string& warning : bundle_->warnings()) warn_once(warning);
}

/// Of the database, else of the bundle.
std::optional<Corrections> Matmul::State::corrections(const Problem& kind) {
  for (const std::optional<Database>* from : {&database_, &bundle_}) try {
      if (!*from) continue;
      if (auto found = load_corrections(**from, kind, device_->info())) return found;
    } catch (const Error& error) {
      warn_once(std::string("corrections of the cost model are not used: ") + error.what());
    }
  return std::nullopt;
}

}  // namespace tilewise
