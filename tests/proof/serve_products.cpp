// Serves random products from a database and compares each with a plain triple loop.
//   serve_products DATABASE PRODUCTS SEED [all|few|stored] [DEVICE] [no-compile]
// Prints one JSON document: the number of right products, of errors by kind, and of wrong products.
// The exit status is 0 unless a product was wrong or ended with anything but a tilewise::Error.
// Product i of seed s is product 0 of seed s + i.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/proof/random_product.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::proof {
namespace {

class Counts {
 public:
  /// True if `attempt` returned without an exception.
  template <class Attempt>
  bool ends(const std::string& what, Attempt attempt) {
    try {
      attempt();
      return true;
    } catch (const Error& error) {
      auto& of_kind = errors_[to_string(error.kind())];
      if (of_kind.is_null()) of_kind = {{"count", 0}, {"first", what + ": " + error.what()}};
      of_kind["count"] = of_kind["count"].get<int>() + 1;
    } catch (const std::exception& error) {
      ++wrong_;
      std::cerr << "no tilewise::Error: " << what << ": " << error.what() << '\n';
    }
    return false;
  }
  void judge(const std::string& what, const std::string& wrong) {
    ++(wrong.empty() ? right_ : wrong_);
    if (!wrong.empty()) std::cerr << "wrong: " << what << ": " << wrong << '\n';
  }
  int print(std::size_t warnings, const std::string& warning) const {
    const nlohmann::ordered_json json{{"right", right_},
                                      {"wrong", wrong_},
                                      {"errors", errors_},
                                      {"warnings", warnings},
                                      {"first_warning", warning}};
    std::cout << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << std::endl;
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  int right_ = 0, wrong_ = 0;
  nlohmann::ordered_json errors_ = nlohmann::ordered_json::object();
};

int run(const std::vector<std::string>& words) {
  const auto word = [&](std::size_t i, const char* otherwise) {
    return i < words.size() ? words[i] : std::string(otherwise);
  };
  const std::uint64_t products = std::stoull(words[1]), seed = std::stoull(words[2]);
  const std::string forms = word(3, "all");
  std::vector<std::string> warnings;
  MatmulOptions options;
  options.database = words[0];
  options.device = word(4, "host");
  options.compile_missing = word(5, "") != "no-compile";
  options.warn = [&](const std::string& line) { warnings.push_back(line); };

  Counts counts;
  std::optional<Matmul> matmul;
  counts.ends("opening", [&] { matmul.emplace(options); });
  for (std::uint64_t i = 0; matmul && i < products; ++i) {
    Product product(seed + i, forms);
    const std::string what = "seed " + std::to_string(seed + i) + ", " + product.text();
    if (counts.ends(what, [&] { product.serve(*matmul); })) counts.judge(what, product.wrong());
  }
  return counts.print(warnings.size(), warnings.empty() ? "" : warnings.front());
}

}  // namespace
}  // namespace tilewise::proof

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 3) {
    std::cerr << "serve_products DATABASE PRODUCTS SEED [all|few|stored] [DEVICE] [no-compile]\n";
    return 2;
  }
  return tilewise::proof::run(words);
}
