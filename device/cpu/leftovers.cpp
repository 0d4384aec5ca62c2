#include "device/cpu/leftovers.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "device/cpu/cpu.hpp"

namespace tilewise::cpu {
namespace {

constexpr int kRemovals = 100;
constexpr auto kBetweenRemovals = std::chrono::milliseconds(10);

// Registered at load time, before any thread can use them.
[[maybe_unused]] const int registered =
    (leftovers(),
     pthread_atfork([] { leftovers().mutex.lock(); }, [] { leftovers().mutex.unlock(); },
                    [] {
                      Leftovers& all = leftovers();
                      all.programs.clear();
                      all.folders.clear();
                      all.mutex.unlock();
                    }));

}  // namespace

Leftovers& leftovers() {
  static Leftovers& all = *new Leftovers;  // never destroyed: used until the process ends
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
    siginfo_t ended;  // not reaped here; the thread that waits for it may be first
    waitid(P_PID, static_cast<id_t>(program), &ended, WEXITED | WNOWAIT);
  }
  for (const std::filesystem::path& folder : all.folders) remove_folder(folder);
}

}  // namespace tilewise::cpu
