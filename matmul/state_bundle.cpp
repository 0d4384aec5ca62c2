// What a Matmul reads of a database and a bundle.
#include <algorithm>
#include <utility>

#include "matmul/state.hpp"
#include "matmul/stored_corrections.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

void Matmul::State::check_bundle() {
  const std::vector<std::string> known = bundle_->gpus();
  const std::string gpu = gpu_key(device_->info());
  if (std::find(known.begin(), known.end(), gpu) != known.end()) return;
  std::string gpus;
  for (const std::string& other : known) gpus += (gpus.empty() ? "" : ", ") + other;
  warn_once("the bundle " + bundle_->path().string() + " has nothing for " + gpu +
            "; it has: " + (gpus.empty() ? "nothing" : gpus));
}

/// Adds what the bundle has for this GPU, behind what the database has: of two for one problem the
/// first serves. Its records have no id, since none of this database is theirs.
void Matmul::State::read_bundle(std::vector<Winner>& winners, std::vector<Record>& general) {
  const std::string gpu = gpu_key(device_->info());
  std::vector<Winner> shipped = bundle_->winners(gpu);
  for (Winner& winner : shipped) {
    winner.record.id = 0;
    winners.push_back(std::move(winner));
  }
  std::vector<Record> others = bundle_->general(gpu);
  for (Record& record : others) {
    record.id = 0;
    general.push_back(std::move(record));
  }
  for (const std::string& warning : bundle_->warnings()) warn_once(warning);
}

/// Reads winners and general records, once more after a search. A file that cannot be read serves
/// nothing.
void Matmul::State::read_stored() {
  std::vector<Winner> winners;
  std::vector<Record> general;
  const auto try_to = [this](auto read) {
    try {
      read();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::database) throw;
      warn_once(std::string("winners cannot be read: ") + error.what());
    }
  };
  if (database_)
    try_to([&] {
      winners = database_->winners(gpu_key(device_->info()));
      general = database_->general(gpu_key(device_->info()));
      for (const std::string& line : database_->warnings()) warn_once(line);  // damaged winners
    });
  if (bundle_) try_to([&] { read_bundle(winners, general); });
  auto read =
      std::make_shared<const Resolver>(std::move(winners), device_->info(), "", std::move(general),
                                       [this](const Problem& kind) { return corrections(kind); });
  for (const std::string& note : read->notes()) warn_once(note);
  const std::lock_guard lock(stored_mutex_);
  stored_ = std::move(read);
}

std::shared_ptr<const Resolver> Matmul::State::read_before() const {
  const std::lock_guard lock(stored_mutex_);
  return stored_;
}

/// As read last; read at the first need. The resolver stays as it is while the pointer is held.
std::shared_ptr<const Resolver> Matmul::State::stored() {
  if (auto known = read_before()) return known;
  const std::lock_guard reading(read_mutex_);
  if (!read_before()) read_stored();
  return read_before();
}

/// What resolves a problem: its own winner alone, where it has a valid one. A thousand winners take
/// some 20 ms to read, which the first product of a process need not wait for.
std::shared_ptr<const Resolver> Matmul::State::stored_for(const Problem& problem) {
  if (auto known = read_before()) return known;
  for (const std::optional<Database>* from : {&database_, &bundle_}) try {
      if (!*from) continue;
      std::optional<Winner> own = (*from)->winner(problem, gpu_key(device_->info()));
      for (const std::string& line : (*from)->warnings()) warn_once(line);  // a damaged winner
      if (!own) continue;
      if (from == &bundle_) own->record.id = 0;
      std::vector<Winner> winners;
      winners.push_back(*std::move(own));
      auto alone = std::make_shared<const Resolver>(std::move(winners), device_->info());
      for (const std::string& note : alone->notes()) warn_once(note);
      if (alone->has_winner(problem)) return alone;
    } catch (const Error&) {  // reading all says what is damaged
      break;
    }
  return stored();
}

/// The same with staleness, where there is a compiler: the source hash depends on it.
std::shared_ptr<const Resolver> Matmul::State::stored_with_compiler() {
  const Compiler* known = compiler();
  auto current = stored();
  if (!known) return current;
  const std::lock_guard lock(informed_mutex_);
  if (informed_of_ != current) {
    informed_ = std::make_shared<const Resolver>(current->with_compiler(known->identity()));
    informed_of_ = std::move(current);
  }
  return informed_;
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
