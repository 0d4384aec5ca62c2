#include "matmul/kernel_table.hpp"

#include <algorithm>
#include <utility>

#include "matmul/resolve.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

LoadedKernel* KernelTable::loaded(const KernelSpec& kernel, const KernelNeed& need) const {
  const auto known = loaded_.find(kernel);
  if (known == loaded_.end() || known->second.need.shared_bytes < need.shared_bytes ||
      known->second.need.cluster_blocks < need.cluster_blocks)
    return nullptr;
  return known->second.kernels.back().get();
}

/// If the kernel is loaded for a smaller need, both stay loaded: captured graphs may use the first.
KernelTable::Loading KernelTable::load(const KernelSpec& kernel, const KernelNeed& asked,
                                       const std::string& launch_revision,
                                       double seconds_to_compile) {
  Loading loading;
  KernelNeed need = asked;
  if (const auto known = loaded_.find(kernel); known != loaded_.end()) {
    need.shared_bytes = std::max(need.shared_bytes, known->second.need.shared_bytes);
    need.cluster_blocks = std::max(need.cluster_blocks, known->second.need.cluster_blocks);
  }
  const ImageStore::Made found = image(kernel, launch_revision, seconds_to_compile, loading);
  if (!found.image) return loading;
  std::string why;
  std::unique_ptr<LoadedKernel> made = try_load(*found.image, need, why);
  if (!made && !found.compiled) made = load_anew(kernel, need, launch_revision, why);
  if (!made) {
    loading.why_not = "the image of " + to_string(kernel) + " does not load: " + why;
    loading.broken = true;
    return loading;
  }
  Loaded& loaded = loaded_[kernel];
  loaded.kernels.push_back(std::move(made));
  loaded.need = need;
  loading.kernel = loaded.kernels.back().get();
  return loading;
}

void KernelTable::refuse(const KernelSpec& kernel, const Problem& problem,
                         const std::string& why_not) {
  const std::lock_guard lock(mutex_);
  refusals_.emplace(kernel, Refusal{problem, why_not});
}

RefusedKernels KernelTable::refused() const {
  const std::lock_guard lock(mutex_);
  RefusedKernels kernels;
  for (const auto& [kernel, refusal] : refusals_) kernels.insert(kernel);
  return kernels;
}

std::string KernelTable::refusal_for(const Problem& problem) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [kernel, refusal] : refusals_)
    if (same_types(refusal.problem, problem)) return refusal.why_not;
  return "";
}

/// The stored image, otherwise a compiled one.
ImageStore::Made KernelTable::image(const KernelSpec& kernel, const std::string& launch_revision,
                                    double seconds_to_compile, Loading& loading) {
  const Target& target = device_.info().target;
  ImageStore::Made made;
  made.image = stores_.stored_image(kernel, launch_revision);
  if (made.image) return made;
  if (!stores_.compiler()) {
    loading.why_not = "no image of " + to_string(kernel) + " for " + to_string(target) +
                      " is stored, and " + stores_.no_compiler();
    return made;
  }
  const Patience patience{seconds_to_compile};
  std::optional<Database>& database = stores_.database();
  made = ImageStore(database ? &*database : nullptr, stores_.cache(), stores_.compiler())
             .make(kernel, target, launch_revision, patience);
  if (!made.image) {
    loading.why_not = to_string(kernel) + " does not compile: " + first_line(made.log);
    loading.broken = true;
  }
  return made;
}

/// Null if the device refuses the image.
std::unique_ptr<LoadedKernel> KernelTable::try_load(const Image& image, const KernelNeed& need,
                                                    std::string& why_not) {
  try {
    return device_.load(image, need.shared_bytes, need.cluster_blocks);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    why_not = error.what();
    return nullptr;
  }
}

/// Compiles a replacement for a stored image that does not load. If the replacement loads, the
/// stored image is faulty and is set aside.
std::unique_ptr<LoadedKernel> KernelTable::load_anew(const KernelSpec& kernel,
                                                     const KernelNeed& need,
                                                     const std::string& launch_revision,
                                                     const std::string& why) {
  if (!stores_.compiler()) return nullptr;
  const Target& target = device_.info().target;
  const ImageStore::Made made = ImageStore(nullptr, stores_.cache(), stores_.compiler())
                                    .make_anew(kernel, target, launch_revision);
  std::string again;
  std::unique_ptr<LoadedKernel> loaded = made.image ? try_load(*made.image, need, again) : nullptr;
  if (!loaded) return nullptr;
  warnings_.once("the stored image of " + to_string(kernel) +
                 " does not load and was compiled anew: " + why);
  stores_.write([&](Database& database) {
    database.refuse_image(kernel, target, launch_revision, "it does not load: " + why);
  });
  return loaded;
}

}  // namespace tilewise
