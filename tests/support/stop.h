// Stop tokens that request a stop after a number of polls. Include it after `import lamina;`, <atomic> and <string>.
#pragma once

namespace engine_test {

// A token that requests a stop once it was polled `left` times.
struct after {
  std::atomic<int>* left;
  bool stop_requested() const noexcept { return left->fetch_sub(1) <= 0; }
};
constexpr int never = 1 << 30;

// Message of a run that is stopped after `times` polls; empty if it ran to its end.
template <class F> std::string stopped_after(int times, const F& f) {
  std::atomic<int> left{times};
  const lamina::stop_scope scope(after{&left});
  try {
    f();
  } catch (const lamina::stopped_error& e) { return e.what(); }
  return {};
}
// How often a run polls the token.
template <class F> int asks(const F& f) {
  std::atomic<int> left{never};
  const lamina::stop_scope scope(after{&left});
  f();
  return never - left;
}

}  // namespace engine_test
