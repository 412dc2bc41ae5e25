// The phases of planning, each by itself. A module unit, because the data passed between phases is not exported.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

module lamina;
import :plan.phases;

using namespace lamina;
using namespace lamina::planning;

namespace {

const pass_options all_passes;

tensor_type real(const shape& s) { return {dtype::float32, s}; }
request whole(const program& p, const pass_options& options = all_passes) { return {p, target_isa(), options}; }

// An image through a convolution of `channels` to `channels` channels, with bias, residual and relu.
struct residual_block {
  program p;
  value image, weights, bias, product, with_bias, with_residual, result;
  explicit residual_block(std::int64_t channels) {
    image = p.input("x", real({2, channels, 8, 8}));
    weights = p.state("w", real({channels, channels, 3, 3}));
    bias = p.state("b", real({channels, 1, 1}));
    product = conv2d(image, weights, {.padding = 1});
    with_bias = product + bias;
    with_residual = with_bias + image;
    result = relu(with_residual);
    p.output("y", result);
  }
};

std::int32_t item_of(const decisions& d, const value& v) {
  return d.order.item_of[static_cast<std::size_t>(v.id().node)];
}
const plan_item& item_at(const decisions& d, const value& v) {
  return d.order.items[static_cast<std::size_t>(item_of(d, v))];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(phases)

BOOST_AUTO_TEST_CASE(analysis_finds_readers) {
  program p;
  const value x = p.input("x", real({4, 5})), unread = exp(x);
  const value a = tanh(x), b = a * a + x, like = reshape_like(b, a);
  p.output("y", like);
  const usage u = analyze(whole(p));
  BOOST_TEST(u.reader_count[x.id()] == 2);
  BOOST_TEST(u.reader_count[a.id()] == 2);  // by one node, twice
  BOOST_TEST(u.readers_of(a.id())[0] == u.readers_of(a.id())[1]);
  BOOST_TEST(u.shape_read[static_cast<std::size_t>(a.id().node)]);
  BOOST_TEST(!u.shape_read[static_cast<std::size_t>(b.id().node)]);
  BOOST_TEST(!u.needed[static_cast<std::size_t>(unread.id().node)]);
  BOOST_TEST(!u.root[b.id()]);
  BOOST_TEST(u.root[like.id()]);
  BOOST_TEST(!u.gradients);
}

BOOST_AUTO_TEST_CASE(analysis_finds_what_depends_on_parameters_alone) {
  program p;
  const value x = p.input("x", real({5})), s = p.state("s", real({5})), counter = p.state("n", real({5}));
  const value scale = exp(s), from_counter = exp(counter), mixed = scale * x;
  p.output("y", mixed + from_counter);
  p.assign(counter, counter + 1);
  const usage u = analyze(whole(p));
  const auto alone = [&](const value& v) { return u.parameter_only[static_cast<std::size_t>(v.id().node)] != 0; };
  BOOST_TEST(alone(scale));
  BOOST_TEST(!alone(from_counter));
  BOOST_TEST(!alone(mixed));
}

BOOST_AUTO_TEST_CASE(images_lie_in_blocks) {
  residual_block net(24);  // not a multiple of every register width
  const value wave = tanh(net.result), shifted = exp(wave), flat = flatten(shifted);
  net.p.output("z", flat);
  const auto r = whole(net.p);
  const usage u = analyze(r);
  layouts forms = lay_out(r, u);
  BOOST_TEST((forms.form[net.product.id()] == layout::blocked));
  BOOST_TEST((forms.form[wave.id()] == layout::plain));  // the bias blocks it until the product absorbs the bias
  group_nodes(r, u, forms);
  for (const value& v : {net.result, wave, shifted}) BOOST_TEST((forms.form[v.id()] == layout::blocked));
  for (const value& v : {net.image, net.weights, flat}) BOOST_TEST((forms.form[v.id()] == layout::plain));
  if (bytes_of(r, net.product.id(), layout::blocked) > r.of.type(net.product.id()).bytes()) {
    BOOST_TEST((padding_of(r, forms, net.product.id()) == 0.0f));
    BOOST_TEST((padding_of(r, forms, shifted.id()) == 1.0f));
  }
  const pass_options plain{.blocked_layout = false};
  const auto without = whole(net.p, plain);
  BOOST_TEST(!lay_out(without, analyze(without)).any_blocked);
}

BOOST_AUTO_TEST_CASE(a_product_takes_its_tail) {
  residual_block net(16);
  const auto r = whole(net.p);
  const usage u = analyze(r);
  layouts forms = lay_out(r, u);
  const grouping groups = group_nodes(r, u, forms);
  const group* g = groups.of(net.product.id().node);
  BOOST_REQUIRE(g);
  BOOST_TEST(!g->chain);
  BOOST_TEST(g->nodes.size() == 4u);
  BOOST_TEST((g->result == net.result.id()));
  BOOST_TEST((g->tail.bias == net.bias.id()));
  BOOST_TEST((g->tail.residual == net.image.id()));
  BOOST_TEST(g->tail.clamp);
  BOOST_TEST(g->tail.low == 0);
  BOOST_TEST(groups.fused_epilogues == 3);
  // If the product has other readers too, nothing is fused.
  net.p.output("product", net.product);
  const usage read_twice = analyze(r);
  layouts again = lay_out(r, read_twice);
  BOOST_TEST(!group_nodes(r, read_twice, again).of(net.product.id().node));
}

BOOST_AUTO_TEST_CASE(elementwise_operations_make_chains) {
  program p;
  const value x = p.input("x", real({100})), y = p.input("y", real({100}));
  const value a = tanh(x), b = a * y, c = exp(b) + a, total = reduce_sum(c), d = c / total;
  p.output("d", d);
  const auto r = whole(p);
  const usage u = analyze(r);
  layouts forms = lay_out(r, u);
  const grouping groups = group_nodes(r, u, forms);
  const group* chain = groups.of(c.id().node);
  BOOST_REQUIRE(chain);
  BOOST_TEST(chain->chain);
  BOOST_TEST(chain->nodes.size() == 4u);
  BOOST_TEST((groups.of(a.id().node) == chain));
  BOOST_TEST((groups.of(d.id().node) != chain));  // the sum reads c, too
  BOOST_TEST(groups.of(total.id().node) == nullptr);
  BOOST_TEST(groups.stays_inside(u, a.id().node));
  BOOST_TEST(!groups.stays_inside(u, c.id().node));
}

BOOST_AUTO_TEST_CASE(items_come_after_what_they_read) {
  program p;
  const value x = p.input("x", real({8, 16})), w = p.state("w", real({16, 16})), s = p.state("s", real({16}));
  value left = matmul(x, w), right = matmul(tanh(x), w);
  const value gain = exp(s), h = matmul(left * right, w) * gain;
  p.output("y", h);
  p.assign(p.state("last", real({8, 16})), sort(h, {}));
  const pass_options at_once{.parallel = true};
  for (const auto* options : {&all_passes, &at_once}) {
    const auto r = whole(p, *options);
    const decisions d = decide(r);
    for (std::size_t i = 0; i < d.order.items.size(); ++i)
      each_read(p, d.groups, d.order, d.order.items[i], [&](value_id v) {
        const auto from = d.order.item_of[static_cast<std::size_t>(v.node)];
        if (from == none || from == static_cast<std::int32_t>(i)) return;
        BOOST_TEST(d.order.items[static_cast<std::size_t>(from)].level < d.order.items[i].level);
      });
    BOOST_TEST(item_at(d, gain).once);
    BOOST_TEST(item_of(d, gain) == 0);
    BOOST_TEST(d.order.items.back().late);
    BOOST_TEST((item_at(d, left).level == item_at(d, right).level) == options->parallel);
  }
}

// A loop runs on one thread, so two of them run at once.
BOOST_AUTO_TEST_CASE(loops_that_do_not_depend_on_each_other_share_a_level) {
  auto body = std::make_shared<program>();
  const value before = body->input("h", real({8})), row = body->input("x", real({8})), after = tanh(before + row);
  body->output("h", after);
  body->output("y", after * row);
  program p;
  const value start = p.input("start", real({8})), rows = p.input("rows", real({5, 8}));
  const auto scanned = [&](const value& x, bool reverse) { return scan(body, {&start, 1}, {&x, 1}, {}, reverse)[1]; };
  const value forth = scanned(rows, false), back = scanned(rows, true), further = scanned(forth, false);
  p.output("y", concat<1>(forth, back));
  p.output("z", further);
  const auto r = whole(p);
  const decisions d = decide(r);
  BOOST_TEST(item_at(d, forth).level == item_at(d, back).level);
  BOOST_TEST(item_at(d, forth).level < item_at(d, further).level);
}

BOOST_AUTO_TEST_CASE(results_are_written_where_they_belong) {
  program p;
  const value x = p.input("x", real({64})), s = p.state("s", real({64}));
  const value first = sort(x, {}), second = tanh(first) * x, third = sort(second, {});
  const value part = slice(third, {.start = 16}), shown = part + 1, next = s * 0.5 + third;
  p.output("y", shown);
  p.assign(s, next);
  const auto r = whole(p);
  const decisions d = decide(r);
  const auto where = [&](const value& v) { return d.places.homes[v.id()].in; };
  BOOST_TEST((where(first) == home::place::own));
  BOOST_TEST((where(second) == home::place::over));
  BOOST_TEST((d.places.homes[second.id()].over == first.id()));
  BOOST_TEST((d.views[part.id()].of == third.id()));
  BOOST_TEST(d.views[part.id()].offset == 16 * 4);
  BOOST_TEST((where(shown) == home::place::output));
  BOOST_TEST((where(next) == home::place::state));
  BOOST_TEST(d.places.commit_item == item_of(d, next));
  const pass_options apart{.reuse_memory = false};
  const decisions kept = decide(whole(p, apart));
  BOOST_TEST((kept.places.homes[second.id()].in == home::place::own));
}

// From its item on, only the item itself reads a buffer that a result overwrites.
BOOST_AUTO_TEST_CASE(nothing_is_overwritten_that_is_read_later) {
  std::int64_t over = 0;
  for (int seed = 0; seed < 200; ++seed) {
    const philox draw(seed, 5);
    std::uint64_t at = 0;
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw.bits(at++) % n); };
    program p;
    std::vector<value> all{p.input("x", real({6, 40})), p.input("y", real({6, 40}))};
    for (int k = 0; k < 40; ++k) {
      const value a = all[all.size() - 1 - below(std::min<std::size_t>(all.size(), 5))], b = all[below(all.size())];
      switch (below(4)) {
        case 0: all.push_back(sort(a, {.axis = 1})); break;
        case 1: all.push_back(tanh(a)); break;
        case 2: all.push_back(a * b); break;
        default: all.push_back(a + reduce_max(b, {.axes = axes(1), .keepdim = true}));
      }
    }
    p.output("z", all.back());
    p.output("w", all[all.size() / 2]);
    const pass_options options{.parallel = seed % 2 == 0};
    const decisions d = decide(whole(p, options));
    for (const value& v : all) {
      const auto& h = d.places.homes[v.id()];
      if (!d.used.needed[static_cast<std::size_t>(v.id().node)] || h.in != home::place::over) continue;
      ++over;
      for (auto reader : d.used.readers_of(h.over)) {
        const auto i = d.order.item_of[static_cast<std::size_t>(reader)];
        BOOST_TEST((i == item_of(d, v) || d.order.items[static_cast<std::size_t>(i)].level < item_at(d, v).level));
      }
    }
  }
  BOOST_TEST(over > 100);
}

BOOST_AUTO_TEST_CASE(every_phase_is_told) {
  residual_block net(16);
  const auto r = whole(net.p);
  const std::string message = describe(r, decide(r));
  BOOST_TEST_CONTEXT(message)
  for (const char* part : {"analyze: inference\n", "%3 = conv2d %0 %1, float32[2x16x8x8], blocked, read by 1\n",
                           "product %3 %4 %5 %6, bias %2, residual %0, clamped to 0..inf\n", "level 0: %0 to blocked\n",
                           "level 1: %3 %4 %5 %6\n", ", a root, plain in output 0\n"})
    BOOST_CHECK_MESSAGE(message.find(part) != std::string::npos, part);
}

BOOST_AUTO_TEST_SUITE_END()
