// expect: a cache cannot look into the key, `counter`: if it holds no pointer, reference or view, declare `using plain_key = void;` in it, and `std::size_t hash() const`, or in a class of your own that holds it
import lamina;
import lamina.std;
using namespace lamina;

class counter {
 public:
  explicit counter(int n) : count_(n) {}
  bool operator==(const counter&) const = default;
#ifndef BAD
  using plain_key = void;
  std::size_t hash() const { return static_cast<std::size_t>(count_); }
#endif

 private:
  int count_;
};
void use() { shared_cache<counter, int> c; }
