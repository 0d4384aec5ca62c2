#include "matmul/stores.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise {

Stores::Stores(ServingParts& parts, const DeviceInfo& device, Warnings& warnings)
    : device_(device),
      warnings_(warnings),
      database_(std::move(parts.database)),
      bundle_(std::move(parts.bundle)),
      compile_missing_(parts.compile_missing),
      open_images_(std::move(parts.open_images)),
      open_cache_(std::move(parts.open_cache)),
      load_compiler_(std::move(parts.load_compiler)) {
  if (!bundle_) return;
  const std::vector<std::string> known = bundle_->gpus();
  const std::string gpu = gpu_key(device);
  if (std::find(known.begin(), known.end(), gpu) != known.end()) return;
  warnings.once("the bundle " + bundle_->path().string() + " has nothing for " + gpu +
                "; it has: " + (known.empty() ? "nothing" : join(known)));
}

Database* Stores::images() {
  images_once_.call([this] {
    try {
      if (open_images_) images_ = open_images_();
    } catch (const Error& error) {
      warnings_.once(std::string("the images that ship are not used: ") + error.what());
    }
  });
  return images_ ? &*images_ : nullptr;
}

ImageCache* Stores::cache() {
  cache_once_.call([this] {
    if (open_cache_) cache_ = open_cache_();
  });
  return cache_.get();
}

const Compiler* Stores::compiler() {
  compiler_once_.call([this] {
    no_compiler_ = compile_missing_ ? "there is no compiler" : "compile_missing is off";
    if (!compile_missing_ || !load_compiler_) return;
    try {
      compiler_ = load_compiler_();
    } catch (const Error& error) {
      no_compiler_ += std::string(": ") + error.what();
    }
  });
  return compiler_.get();
}

std::optional<Image> Stores::stored_image(const KernelSpec& kernel,
                                          const std::string& launch_revision) {
  const Target& target = device_.target;
  if (database_) {
    const std::size_t known = database_->warnings().size();
    if (auto found =
            ImageStore(&*database_, nullptr, nullptr).stored(kernel, target, launch_revision))
      return found;
    const std::vector<std::string> warnings = database_->warnings();
    for (std::size_t i = known; i < warnings.size(); ++i) warnings_.once(warnings[i]);
    // A read-only connection keeps a damaged image; a writable one sets it aside.
    if (warnings.size() > known)
      write([&](Database& database) { database.image(kernel, target, launch_revision); });
  }
  for (Database* const from : {bundle_ ? &*bundle_ : nullptr, images()}) {
    if (!from) continue;
    auto found = ImageStore(from, nullptr, nullptr).stored(kernel, target, launch_revision);
    for (const std::string& warning : from->warnings()) warnings_.once(warning);
    if (found) return found;
  }
  if (!cache()) return std::nullopt;
  auto found = ImageStore(nullptr, cache(), nullptr).stored(kernel, target, launch_revision);
  for (const std::string& warning : cache()->warnings()) warnings_.once(warning);
  return found;
}

std::string Stores::write(const std::function<void(Database&)>& change) {
  if (!database_) return "";
  try {
    if (database_->read_only()) {
      Database writable =
          Database::open(database_->path(), OpenMode::read_write, database_->trust());
      change(writable);
    } else {
      change(*database_);
    }
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace tilewise
