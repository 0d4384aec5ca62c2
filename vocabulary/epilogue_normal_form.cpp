#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vocabulary/decimal.hpp"
#include "vocabulary/epilogue.hpp"
#include "vocabulary/hash.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {
namespace {

using Op = EpilogueOp;
using Use = EpilogueUse;

bool is_commutative(Op op) {
  return op == Op::sum_of_products || op == Op::add || op == Op::multiply || op == Op::minimum ||
         op == Op::maximum || op == Op::equal || op == Op::not_equal;
}

/// The normal form: commutative arguments are ordered by hashes that do not depend on names, then
/// nodes and operands are numbered as they are reached from the results.
class Normaliser {
 public:
  explicit Normaliser(const NamedEpilogue& from) : from_(from) {
    const std::size_t count = from.form.nodes.size();
    places_.resize(count), slots_.resize(from.names.size()), uses_.resize(count);
    hash_nodes();
    std::vector<std::string> all = hashes_;
    // Types count last: a problem may imply them.
    for (const bool types : {false, true}) {
      with_types_ = types;
      for (std::size_t i = 0; i < from.names.size(); ++i) {
        find_uses();
        hash_nodes();
      }
      for (std::size_t n = 0; n < count; ++n) all[n] += hashes_[n];
    }
    hashes_ = std::move(all);
  }

  NamedEpilogue normal() {
    std::vector<std::size_t> written;
    for (std::size_t slot = 0; slot < from_.names.size(); ++slot)
      if (from_.form.operands[slot].use != Use::read) written.push_back(slot);
    std::stable_sort(written.begin(), written.end(), [&](std::size_t x, std::size_t y) {
      const EpilogueSlot &of_x = from_.form.operands[x], &of_y = from_.form.operands[y];
      return std::pair(of_x.use, hashes_[of_x.node]) < std::pair(of_y.use, hashes_[of_y.node]);
    });
    for (const std::size_t slot : written) {
      const std::size_t node = place(from_.form.operands[slot].node);
      add_operand(slot);
      made_.form.operands.back().node = node;
    }
    made_.form.c = place(from_.form.c);
    return std::move(made_);
  }

 private:
  const NamedEpilogue& from_;
  std::vector<std::string> hashes_;  // of nodes, by place in the text
  std::vector<std::string> uses_;    // a hash of what is made of each node
  bool with_types_ = false;
  std::vector<std::optional<std::size_t>> places_;  // in the normal form
  std::vector<std::optional<std::size_t>> slots_;
  NamedEpilogue made_;

  /// By what nodes are made of, and operands by their uses: of two alike in a[j] * b[j] + a[j], one
  /// is also added.
  void hash_nodes() {
    hashes_.clear();
    for (std::size_t n = 0; n < from_.form.nodes.size(); ++n) {
      const EpilogueNode& node = from_.form.nodes[n];
      std::string text = std::to_string(static_cast<int>(node.op)) + "(" + join(of(node)) + ")";
      if (node.op == Op::number) text += in_shortest_form(node.value);
      if (node.op == Op::operand) text += operand_text(node.slot) + uses_[n];
      hashes_.push_back(hash_text(text));
    }
  }
  std::string operand_text(std::size_t slot) const {
    const EpilogueSlot& operand = from_.form.operands[slot];
    return index_text(operand) + (operand.over == EpilogueOver::zero_points ? "zero" : "") +
           (with_types_ && operand.type ? std::string(tilewise::to_string(*operand.type)) : "");
  }
  /// The hashes of a node's arguments.
  std::vector<std::string> of(const EpilogueNode& node) const {
    std::vector<std::string> x;
    for (const std::size_t place : node.x) x.push_back(hashes_[place]);
    if (is_commutative(node.op)) std::sort(x.begin(), x.end());
    return x;
  }
  void find_uses() {
    std::vector<std::vector<std::string>> uses(uses_.size());
    for (std::size_t slot = 0; slot < from_.names.size(); ++slot)
      if (const EpilogueSlot& operand = from_.form.operands[slot]; operand.use != Use::read)
        uses[operand.node].push_back(operand_text(slot) +
                                     std::to_string(static_cast<int>(operand.use)));
    uses[from_.form.c].push_back("C");
    for (std::size_t n = uses.size(); n-- > 0;) {
      std::sort(uses[n].begin(), uses[n].end());
      uses_[n] = hash_text(join(uses[n]));
      const EpilogueNode& node = from_.form.nodes[n];
      for (std::size_t i = 0; i < node.x.size(); ++i)
        uses[node.x[i]].push_back(uses_[n] + hashes_[n] +
                                  std::to_string(is_commutative(node.op) ? 0 : i));
    }
  }
  std::size_t add_operand(std::size_t slot) {
    if (!slots_[slot]) {
      slots_[slot] = made_.names.size();
      made_.names.push_back(from_.names[slot]);
      made_.form.operands.push_back(from_.form.operands[slot]);
    }
    return *slots_[slot];
  }
  std::size_t place(std::size_t node) {
    if (places_[node]) return *places_[node];
    EpilogueNode made = from_.form.nodes[node];
    const bool commutative = is_commutative(made.op);
    const auto by_hash = [&](std::size_t x, std::size_t y) { return hashes_[x] < hashes_[y]; };
    if (commutative) std::stable_sort(made.x.begin(), made.x.end(), by_hash);
    const bool alike =
        commutative && made.x.size() == 2 && hashes_[made.x[0]] == hashes_[made.x[1]];
    for (std::size_t& x : made.x) x = place(x);
    if (alike) std::sort(made.x.begin(), made.x.end());
    if (made.op == Op::operand) made.slot = add_operand(made.slot);
    auto& nodes = made_.form.nodes;
    const auto found = std::find(nodes.begin(), nodes.end(), made);
    places_[node] = static_cast<std::size_t>(found - nodes.begin());
    if (found == nodes.end()) nodes.push_back(std::move(made));
    return *places_[node];
  }
};

}  // namespace

NamedEpilogue normal_form(const NamedEpilogue& read) { return Normaliser(read).normal(); }

}  // namespace tilewise
