#pragma once
#include <string>
#include <vector>

namespace tilewise::test {

/// The argument list of execv(): pointers to the words, which must outlive the list, and a null
/// pointer.
inline std::vector<char*> argv_of(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace tilewise::test
