#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "tilewise/error.hpp"

namespace tilewise {

inline constexpr unsigned kLongest = 60;  // a child's time limit, seconds

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

/// A child process's output; "signal 14" if it hangs.
inline std::string said_by_child(const std::function<std::string()>& body) {
  int pipes[2];
  EXPECT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kLongest);
    std::string text = "no words";
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("threw ") + error.what();
    }
    const ssize_t written = write(pipes[1], text.data(), text.size());
    std::_Exit(written < 0 ? 1 : 0);
  }
  close(pipes[1]);
  std::string text;
  char piece[512];
  for (ssize_t got = 0; (got = read(pipes[0], piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(got));
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : text;
}

}  // namespace tilewise
