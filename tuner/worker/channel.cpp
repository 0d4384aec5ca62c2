#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "tuner/worker/protocol.hpp"

namespace tilewise {
namespace {

constexpr std::uint32_t kLongestText = 64U << 20;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::device, "talking to the worker process: " + what);
}

// Milliseconds that poll() may wait: -1 without a deadline.
int remaining(Deadline deadline) {
  if (!deadline) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
  return static_cast<int>(
      std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

Transfer wait_for(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  for (;;) {
    const int ready = poll(&entry, 1, remaining(deadline));
    if (ready > 0) return Transfer::done;
    if (ready == 0) return Transfer::timeout;
    if (errno != EINTR) fail(std::string("poll: ") + std::strerror(errno));
  }
}

bool is_hangup(int error) { return error == EPIPE || error == ECONNRESET; }

}  // namespace

Deadline deadline_in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

Transfer Channel::send_bytes(const void* data, std::size_t count, int fd, Deadline deadline) const {
  const auto* from = static_cast<const std::byte*>(data);
  while (count > 0) {
    if (const Transfer waited = wait_for(fd_, POLLOUT, deadline); waited != Transfer::done) {
      return waited;
    }
    iovec part{const_cast<std::byte*>(from), count};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (fd >= 0) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* carried = CMSG_FIRSTHDR(&header);
      carried->cmsg_level = SOL_SOCKET;
      carried->cmsg_type = SCM_RIGHTS;
      carried->cmsg_len = CMSG_LEN(sizeof fd);
      std::memcpy(CMSG_DATA(carried), &fd, sizeof fd);
    }
    const ssize_t sent = sendmsg(fd_, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      if (is_hangup(errno)) return Transfer::closed;
      fail(std::string("sendmsg: ") + std::strerror(errno));
    }
    fd = -1;  // sent with the first bytes
    from += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return Transfer::done;
}

Transfer Channel::receive_bytes(void* data, std::size_t count, int* fd, Deadline deadline) const {
  auto* to = static_cast<std::byte*>(data);
  while (count > 0) {
    if (const Transfer waited = wait_for(fd_, POLLIN, deadline); waited != Transfer::done) {
      return waited;
    }
    iovec part{to, count};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t received = recvmsg(fd_, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (received < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      if (is_hangup(errno)) return Transfer::closed;
      fail(std::string("recvmsg: ") + std::strerror(errno));
    }
    if (received == 0) return Transfer::closed;
    const cmsghdr* carried = CMSG_FIRSTHDR(&header);
    if (carried && carried->cmsg_type == SCM_RIGHTS) {
      int taken = -1;
      std::memcpy(&taken, CMSG_DATA(carried), sizeof taken);
      if (fd && *fd < 0) {
        *fd = taken;
      } else {
        close(taken);
      }
    }
    to += received;
    count -= static_cast<std::size_t>(received);
  }
  return Transfer::done;
}

Transfer Channel::send(const Message& message, Deadline deadline) const {
  if (message.text.size() > kLongestText ||
      message.blob.size() > std::numeric_limits<std::uint32_t>::max()) {
    fail("a message of " + std::to_string(message.text.size() + message.blob.size()) +
         " bytes is too long");
  }
  const std::array<std::uint32_t, 2> lengths = {static_cast<std::uint32_t>(message.text.size()),
                                                static_cast<std::uint32_t>(message.blob.size())};
  Transfer result = send_bytes(lengths.data(), sizeof lengths, message.fd, deadline);
  if (result == Transfer::done) {
    result = send_bytes(message.text.data(), message.text.size(), -1, deadline);
  }
  if (result == Transfer::done) {
    result = send_bytes(message.blob.data(), message.blob.size(), -1, deadline);
  }
  return result;
}

Transfer Channel::receive(Message& message, Deadline deadline) const {
  message = {};
  std::array<std::uint32_t, 2> lengths{};
  Transfer result = receive_bytes(lengths.data(), sizeof lengths, &message.fd, deadline);
  if (result != Transfer::done) return result;
  if (lengths[0] > kLongestText)
    fail("a frame of " + std::to_string(lengths[0]) + " bytes of text");
  message.text.resize(lengths[0]);
  message.blob.resize(lengths[1]);
  result = receive_bytes(message.text.data(), message.text.size(), nullptr, deadline);
  if (result == Transfer::done) {
    result = receive_bytes(message.blob.data(), message.blob.size(), nullptr, deadline);
  }
  return result;
}

}  // namespace tilewise
