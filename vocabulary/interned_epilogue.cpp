#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "tilewise/error.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

/// Normal forms by their texts. Never destroyed: problems refer to them until the process ends.
struct Forms {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const EpilogueForm>, std::less<>> by_text;
};
Forms& forms() {
  static Forms* const all = new Forms;
  return *all;
}

}  // namespace

const EpilogueForm* interned(const EpilogueForm& form) {
  std::string text = to_string(form);
  const std::lock_guard lock(forms().mutex);
  auto& of_text = forms().by_text[std::move(text)];
  if (!of_text) of_text = std::make_unique<const EpilogueForm>(form);
  return of_text.get();
}

const EpilogueForm* interned(std::string_view text) {
  if (text.empty()) return nullptr;
  {
    const std::lock_guard lock(forms().mutex);
    const auto known = forms().by_text.find(text);
    if (known != forms().by_text.end()) return known->second.get();
  }
  return interned(parse_epilogue(text).form);
}

Epilogue::Epilogue(std::string_view text) {
  NamedEpilogue read = parse_epilogue(text);
  form_ = interned(read.form);
  names_ = std::move(read.names);
}

std::size_t Epilogue::slot(std::string_view name) const {
  for (std::size_t slot = 0; slot < names_.size(); ++slot)
    if (names_[slot] == name) return slot;
  throw Error(ErrorKind::not_found,
              "the epilogue has no operand '" + std::string(name) + "'; " +
                  (names_.empty() ? "it has none" : "it has " + join(names_, ", ")));
}

EpilogueOver Epilogue::over(std::size_t slot) const { return form_->operands.at(slot).over; }
EpilogueUse Epilogue::use(std::size_t slot) const { return form_->operands.at(slot).use; }
EpilogueShape Epilogue::shape(std::size_t slot, std::int64_t m, std::int64_t n,
                              std::int64_t k) const {
  return shape_of(form_->operands.at(slot), m, n, k);
}
std::optional<DType> Epilogue::type(std::size_t slot) const {
  return form_->operands.at(slot).type;
}

Epilogue Epilogue::with_type(std::size_t slot, DType type) const {
  if (bits_of(type) < 8)
    throw Error(ErrorKind::invalid_argument,
                "operand " + names_.at(slot) + " of an epilogue is of " +
                    std::string(to_string(type)) + ", which is a type of B only");
  EpilogueForm form = *form_;
  if (std::optional<DType>& stated = form.operands.at(slot).type; !stated) stated = type;
  Epilogue typed = *this;
  typed.form_ = interned(form);
  return typed;
}

std::string Epilogue::text() const { return to_string(*form_); }

void set_epilogue(Problem& problem, const Epilogue& epilogue) {
  const auto is_implied = [&](const EpilogueSlot& slot) {
    return slot.type == default_type(slot, problem.c.type);
  };
  problem.epilogue = epilogue.form();
  const std::vector<EpilogueSlot>& operands = epilogue.form()->operands;
  if (std::none_of(operands.begin(), operands.end(), is_implied)) return;
  EpilogueForm form = *epilogue.form();
  for (EpilogueSlot& slot : form.operands)
    if (is_implied(slot)) slot.type.reset();
  problem.epilogue = interned(form);
}

std::string epilogue_text(const Problem& problem) {
  return problem.epilogue ? to_string(*problem.epilogue) : std::string();
}

}  // namespace tilewise
