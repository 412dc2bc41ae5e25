// Truth tables of the concepts of nets/graph.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

struct threes {
  ir::value operator()(auto& s) const { return s.constant(3); }
};
struct no_scope {
  double operator()() const { return 3; }
};
struct not_copied : threes {
  not_copied() = default;
  not_copied(const not_copied&) = delete;
};

// Fill: a callable that takes a scope and returns the initial values of a blob.
static_assert(graph::Fill<op::constant>);
static_assert(graph::Fill<op::uniform>);
static_assert(graph::Fill<threes>);
static_assert(!graph::Fill<no_scope>);
static_assert(!graph::Fill<not_copied>);
static_assert(!graph::Fill<double>);
static_assert(!graph::Fill<vector<float>>);

}  // namespace
