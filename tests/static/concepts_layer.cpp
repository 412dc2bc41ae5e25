// Truth tables of the concepts of nets/layer.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

struct doubled {
  constexpr auto forward(auto&, const auto& x) const { return x + x; }
};
struct not_copied {
  not_copied() = default;
  not_copied(const not_copied&) = delete;
  constexpr auto forward(auto&, const auto& x) const { return x; }
};
struct other_member {
  constexpr auto backward(auto&, const auto& x) const { return x; }
};
inline constexpr auto net = sequential(nn::linear{4, 3}, nn::relu{});

// Layer: a class with `forward` that can be copied, or a topology.
static_assert(Layer<doubled>);
static_assert(Layer<const doubled>);
static_assert(Layer<nn::linear>);
static_assert(Layer<nn::relu>);
static_assert(Layer<decltype(net)>);
static_assert(!Layer<not_copied>);
static_assert(!Layer<other_member>);
static_assert(!Layer<int>);
static_assert(!Layer<ir::value>);
static_assert(!Layer<vector<float>>);

}  // namespace
