// Working memory of executors.
export module lamina:workspace;
import :core;
import :tensor;
import lamina.std;

namespace lamina {

/// Memory for activations and scratch, shared by executors that never run at the same time. It grows to the largest
/// need.
export class workspace {
 public:
  /// Returns at least `bytes` bytes with undefined contents. Errors: out_of_memory.
  std::byte* reserve(std::size_t bytes);
  std::size_t bytes() const { return memory_.bytes(); }
  /// Frees the memory until it is reserved again.
  void release() noexcept;

 private:
  friend class executor;
  storage memory_;
  std::uint64_t taken_ = 0;  // number of changes of user or memory
};

/// A pool of workspaces that models borrow for a run, within a limit of bytes. Thread-safe.
export class arena_pool {
 public:
  /// 0 bytes: no limit.
  explicit arena_pool(std::size_t limit = 0);
  ~arena_pool();
  arena_pool(const arena_pool&) = delete;
  arena_pool& operator=(const arena_pool&) = delete;
  /// Borrows a workspace of at least `bytes` bytes, preferably `before`. Waits while others use up the limit.
  /// Errors: out_of_memory if `bytes` alone exceeds the limit.
  std::shared_ptr<workspace> take(std::size_t bytes, const std::shared_ptr<workspace>& before = {});
  void give_back(const std::shared_ptr<workspace>& w) noexcept;
  /// Bytes of all workspaces, and of the borrowed ones.
  std::size_t bytes() const;
  std::size_t lent() const;
  std::size_t limit() const { return limit_; }
  /// Frees workspaces that are not borrowed.
  void trim();

 private:
  struct implementation;
  std::size_t limit_;
  std::unique_ptr<implementation> impl_;
};

}  // namespace lamina
