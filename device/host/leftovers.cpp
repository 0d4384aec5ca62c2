#include "device/host/leftovers.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "device/host/host.hpp"

namespace tilewise::host {
namespace {

constexpr int kRemovals = 100;
constexpr auto kBetweenRemovals = std::chrono::milliseconds(10);

}  // namespace

Leftovers& leftovers() {
  static Leftovers& all = [&]() -> Leftovers& {
    static Leftovers& made = *new Leftovers;  // never destroyed: used until the process ends
    pthread_atfork([] { made.mutex.lock(); }, [] { made.mutex.unlock(); },
                   [] {
                     made.programs.clear();
                     made.folders.clear();
                     made.mutex.unlock();
                   });
    return made;
  }();
  return all;
}

void remove_folder(const std::filesystem::path& folder) noexcept {
  for (int i = 0; i < kRemovals; ++i) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    if (!error) return;
    std::this_thread::sleep_for(kBetweenRemovals);
  }
}

void prepare_immediate_exit() noexcept {
  Leftovers& all = leftovers();
  all.mutex.lock();  // never unlocked: no new folder or program from here on
  for (const pid_t program : all.programs) kill(-program, SIGKILL);
  for (const pid_t program : all.programs) {
    siginfo_t ended;  // not reaped here; the thread that waits for it may do it first
    waitid(P_PID, static_cast<id_t>(program), &ended, WEXITED | WNOWAIT);
  }
  for (const std::filesystem::path& folder : all.folders) remove_folder(folder);
}

}  // namespace tilewise::host
