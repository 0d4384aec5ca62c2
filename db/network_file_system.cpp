#include "db/network_file_system.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <array>

namespace tilewise {
namespace {

struct FileSystem {
  std::uint64_t magic;
  std::string_view name;
};

// From linux/magic.h and the file systems' own sources. FUSE may be local, but also is sshfs,
// virtiofs and most cloud drives; a rollback journal is safe on all of them.
constexpr std::array kNetwork{
    FileSystem{0x6969, "NFS"},        FileSystem{0x517b, "SMB"},
    FileSystem{0xfe534d42, "SMB"},    FileSystem{0xff534d42, "CIFS"},
    FileSystem{0x65735546, "FUSE"},   FileSystem{0x01021997, "9P"},
    FileSystem{0x0bd00bd0, "Lustre"}, FileSystem{0x00c36400, "Ceph"},
    FileSystem{0x47504653, "GPFS"},   FileSystem{0x19830326, "BeeGFS"},
    FileSystem{0x5346414f, "AFS"},    FileSystem{0x6b414653, "AFS"},
    FileSystem{0x73757245, "Coda"},   FileSystem{0x7461636f, "OCFS2"},
    FileSystem{0x01161970, "GFS2"},   FileSystem{0x786f4256, "VirtualBox shared folder"},
};

}  // namespace

std::string_view network_file_system(std::uint64_t magic) {
  const auto found = std::find_if(kNetwork.begin(), kNetwork.end(),
                                  [magic](const FileSystem& row) { return row.magic == magic; });
  return found != kNetwork.end() ? found->name : std::string_view{};
}

std::string_view network_file_system_of(const std::filesystem::path& path) {
  struct statfs facts {};
  const auto folder = std::filesystem::absolute(path).parent_path();
  if (statfs(path.c_str(), &facts) != 0 && statfs(folder.c_str(), &facts) != 0) return {};
  // The field is signed on some machines: a magic number above 2^31 must not be sign-extended.
  return network_file_system(static_cast<std::uint32_t>(facts.f_type));
}

}  // namespace tilewise
