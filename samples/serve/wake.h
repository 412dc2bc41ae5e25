// Queue by which workers notify the server thread of finished predictions. It does not allocate, so it cannot fail.
#pragma once
#include <memory>
#include <mutex>

class connection;

/// Handle to a connection that waits for a prediction; `of` becomes null when the connection stops waiting.
struct ticket {
  connection* of = nullptr;
  std::shared_ptr<ticket> next{};
};

class wake_list {
 public:
  /// Throws std::system_error if no file descriptor is available.
  wake_list();
  ~wake_list();
  wake_list(const wake_list&) = delete;
  wake_list& operator=(const wake_list&) = delete;
  /// Callable from any thread.
  void push(std::shared_ptr<ticket> t) noexcept;
  /// Takes all pushed tickets, linked by `next`; the descriptor becomes readable again upon the next push.
  std::shared_ptr<ticket> take() noexcept;
  /// File descriptor that is readable while the list is not empty.
  int descriptor() const { return event_; }

 private:
  int event_;
  std::mutex mutex_;
  std::shared_ptr<ticket> first_;
};
