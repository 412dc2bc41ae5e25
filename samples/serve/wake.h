// How workers tell the thread of the connections that an answer is ready: it takes no memory, so it cannot fail.
#pragma once
#include <memory>
#include <mutex>

class connection;

/// Stands for a connection that waits for an answer; it forgets the connection where that waits no longer.
struct ticket {
  connection* of = nullptr;
  std::shared_ptr<ticket> next{};
};

class wake_list {
 public:
  /// Throws std::system_error where the system has no more descriptors.
  wake_list();
  ~wake_list();
  wake_list(const wake_list&) = delete;
  wake_list& operator=(const wake_list&) = delete;
  /// From any thread.
  void push(std::shared_ptr<ticket> t) noexcept;
  /// All that were pushed, linked by `next`; the descriptor is readable again after the next push.
  std::shared_ptr<ticket> take() noexcept;
  /// Readable while there is something to take.
  int descriptor() const { return event_; }

 private:
  int event_;
  std::mutex mutex_;
  std::shared_ptr<ticket> first_;
};
