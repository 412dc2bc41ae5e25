// Memory in which executors work.
export module lamina:workspace;
import :core;
import :tensor;
import lamina.std;

namespace lamina {

/// Memory for activations and scratch that executors use one after the other, never two at once. It grows to the largest.
export class workspace {
 public:
  /// At least so many bytes; what they hold is undefined. Errors: out_of_memory.
  std::byte* reserve(std::size_t bytes);
  std::size_t bytes() const { return memory_.bytes(); }
  /// Frees the memory until it is reserved again.
  void release() noexcept;

 private:
  friend class executor;
  storage memory_;
  std::uint64_t taken_ = 0;  // how often it changed hands or memory
};

/// Workspaces that models of any sizes lend for the time of a run, within a limit of bytes. Any thread may use it.
export class arena_pool {
 public:
  /// 0 bytes: no limit.
  explicit arena_pool(std::size_t limit = 0);
  ~arena_pool();
  arena_pool(const arena_pool&) = delete;
  arena_pool& operator=(const arena_pool&) = delete;
  /// A workspace of at least so many bytes: `before`, if it is free. Waits while others hold what the limit leaves.
  /// Errors: out_of_memory where one alone is more than the limit.
  std::shared_ptr<workspace> take(std::size_t bytes, const std::shared_ptr<workspace>& before = {});
  void give_back(const std::shared_ptr<workspace>& w) noexcept;
  /// Bytes of all workspaces, and of those that are lent.
  std::size_t bytes() const;
  std::size_t lent() const;
  std::size_t limit() const { return limit_; }
  /// Frees what is not lent.
  void trim();

 private:
  struct implementation;
  std::size_t limit_;
  std::unique_ptr<implementation> impl_;
};

}  // namespace lamina
