// A program's own classes, beside `using namespace lamina`, with names that the library uses for other things: the
// unqualified names mean the program's.
import lamina;

using namespace lamina;

struct key {
  int own = 1;
};
struct value {
  int own = 2;
};
struct text {
  int own = 3;
};
struct program {
  int own = 4;
};
struct update {
  int own = 5;
};
struct bias {
  int own = 6;
};
struct ports {
  int own = 7;
};
enum class part { head = 8, tail };
template <class T> struct cached {
  T own = 9;
};
struct fc {
  int own = 10;
};

inline constexpr auto typed_net = sequential(nn::linear{.in_features = 2, .out_features = 2});

namespace {
/// A layer with ports, a check and a policy, using the library's names.
struct scaled_sum {
  static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }
  constexpr void check(view<const tensor_type> x, message_text& why) const {
    if (x[0].dims.rank != x[1].dims.rank) why << "the ranks of both operands differ";
  }
  constexpr auto forward(auto& s, const auto& lhs, const auto& rhs) const {
    return policy_of<use_bias>(s).value ? lhs + rhs : lhs - rhs;
  }
};

int sum_of_own(const value& v, program* p, part x, cached<int> c) {
  return key{}.own + v.own + text{}.own + p->own + update{}.own + bias{}.own + ports{}.own + static_cast<int>(x) +
         c.own + fc{}.own;
}
}  // namespace

int use_types() {
  program mine;
  if (sum_of_own(value{}, &mine, part::head, {}) != 55) return 1;

  model<typed_net, input<"N", 2>, policies<use_bias(false), sub<"0">(trainable(false))>> net({.seed = 1});
  if (net.parameters().size() != 1 || net.parameters()[0].trainable()) return 2;

  const matrix<float> a{{1, 2}}, b{{3, 5}};
  train_layer<scaled_sum, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("sum");
  if (evaluate(layer.forward(dict("lhs"_key = a, "rhs"_key = b))["output"_key])(0, 1) != 7) return 3;

  ir::program p;
  const ir::value x = p.input("x", {dtype::float32, {2}});
  p.output("y", tanh(2 * x) - x);
  if (p.outputs()[0].name != "y") return 4;

  shared_cache<int, int> squares;
  const cache_result<int> nine = squares.get_or_create(3, [] { return 9; });
  if (nine.value != 9 || nine.lookup != cache_lookup::miss) return 5;

  return data_split::train == data_split::test ? 6 : 0;
}
