#include "db/network_file_system.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <optional>

#include "db/database.hpp"

namespace tilewise {
namespace {

struct FileSystem {
  std::uint64_t magic;
  std::string_view name;
};

// From linux/magic.h and the file systems' sources. FUSE may be local, but includes sshfs, virtiofs
// and most cloud drives; a rollback journal is safe on all of them.
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

// FUSE reports its server's owners: ntfs-3g and Docker Desktop report one owner for all files.
constexpr std::array<std::uint64_t, 10> kWithoutOwners{
    0x4d44,                              // FAT
    0x2011bab0,                          // exFAT
    0x5346544e, 0x7366746e,              // NTFS
    0x517b,     0xfe534d42, 0xff534d42,  // SMB, CIFS
    0x65735546,                          // FUSE
    0x01021997,                          // 9P
    0x786f4256,                          // VirtualBox shared folder
};

/// The magic number in statfs(2) for the file system of a path or of its folder; empty when neither
/// exists.
std::optional<std::uint64_t> magic_of(const std::filesystem::path& path) {
  struct statfs facts {};
  const auto folder = absolute_path(path).parent_path();
  if (statfs(path.c_str(), &facts) != 0 && statfs(folder.c_str(), &facts) != 0) return {};
  // The field is signed on some machines: magic numbers from 2^31 must not be sign-extended.
  return static_cast<std::uint32_t>(facts.f_type);
}

}  // namespace

std::string_view network_file_system(std::uint64_t magic) {
  const auto found = std::find_if(kNetwork.begin(), kNetwork.end(),
                                  [magic](const FileSystem& row) { return row.magic == magic; });
  return found != kNetwork.end() ? found->name : std::string_view{};
}

std::string_view network_file_system_of(const std::filesystem::path& path) {
  const auto magic = magic_of(path);
  return magic ? network_file_system(*magic) : std::string_view{};
}

bool keeps_owners(std::uint64_t magic) {
  return std::find(kWithoutOwners.begin(), kWithoutOwners.end(), magic) == kWithoutOwners.end();
}

bool keeps_owners(const std::filesystem::path& path) {
  const auto magic = magic_of(path);
  return !magic || keeps_owners(*magic);
}

}  // namespace tilewise
