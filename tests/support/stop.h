// Runs that are stopped when they have asked so many times. Include it after `import lamina;`, <atomic> and <string>.
#pragma once

namespace engine_test {

// Is asked to stop when it was asked so many times.
struct after {
  std::atomic<int>* left;
  bool stop_requested() const noexcept { return left->fetch_sub(1) <= 0; }
};
constexpr int never = 1 << 30;

// What a run says that is stopped when a token was asked `times` times; nothing where it came to its end.
template <class F> std::string stopped_after(int times, const F& f) {
  std::atomic<int> left{times};
  const lamina::stop_scope scope(after{&left});
  try {
    f();
  } catch (const lamina::stopped_error& e) { return e.what(); }
  return {};
}
// How often a run asks.
template <class F> int asks(const F& f) {
  std::atomic<int> left{never};
  const lamina::stop_scope scope(after{&left});
  f();
  return never - left;
}

}  // namespace engine_test
