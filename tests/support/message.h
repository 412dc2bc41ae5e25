// Messages of errors. Include it after `import lamina;` and <string>.
#pragma once

namespace engine_test {

/// The message of the error that f raises, or "" if it raises none.
template <class F> std::string message_of(const F& f) {
  try {
    f();
  } catch (const lamina::error& e) { return e.what(); }
  return {};
}

}  // namespace engine_test
