// Decision tree ensembles: all trees of all samples descend together, one level at a time, by node tables.
module lamina.onnx:trees.impl;
import :convert;
import :message;
import :ml;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

enum class comparison : std::uint8_t { leq, lt, gte, gt, eq, neq, member, leaf };
constexpr std::string_view comparison_names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                                 "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

// Nodes of all trees in one list. Both children of a leaf are the leaf itself.
struct forest {
  std::vector<comparison> modes{};
  std::vector<std::int64_t> features{}, yes{}, no{}, tracks{}, roots{};
  std::vector<double> values{};
  std::vector<std::vector<double>> members{};  // of nodes that test set membership
  std::size_t size() const { return modes.size(); }
};

// Number of steps from a root to the deepest leaf. Errors: nodes that are reached twice in a tree.
std::int64_t depth_of(node_call& c, const forest& f) {
  std::int64_t deepest = 0;
  std::size_t steps = 0;
  const std::size_t max = 64 * f.size() + (std::size_t{1} << 22);
  std::vector<std::size_t> seen(f.size(), 0);
  for (std::size_t t = 0; t < f.roots.size(); ++t) {
    std::vector<std::pair<std::int64_t, std::int64_t>> open{{f.roots[t], 0}};
    while (!open.empty()) {
      const auto [at, level] = open.back();
      open.pop_back();
      if (++steps > max) c.unsupported("trees that share most of their nodes are not supported");
      deepest = std::max(deepest, level);
      const auto i = static_cast<std::size_t>(at);
      if (f.modes[i] == comparison::leaf) continue;
      if (std::exchange(seen[i], t + 1) == t + 1) c.fail("node ", at, " of a tree is reached twice");
      open.emplace_back(f.yes[i], level + 1);
      if (f.no[i] != f.yes[i]) open.emplace_back(f.no[i], level + 1);
    }
  }
  return deepest;
}

value integers(node_call& c, const std::vector<std::int64_t>& v) { return c.constant(v); }

// Tables that one step reads.
struct walk {
  value x, features, values, children, modes, tracks, members;  // unused ones are empty
  std::vector<comparison> used;
};
value compared(comparison m, const value& a, const value& b) {
  switch (m) {
    case comparison::leq: return a <= b;
    case comparison::lt: return a < b;
    case comparison::gte: return a >= b;
    case comparison::gt: return a > b;
    case comparison::eq: return a == b;
    default: return a != b;
  }
}
// One step: from nodes [N, T] to their children.
value step(const walk& w, const value& at) {
  const auto of = [&](const value& table) { return value(lamina::gather(table, at, 0)); };
  const value x = lamina::take_along_axis(w.x, of(w.features), 1), v = of(w.values);
  value condition;
  for (comparison m : w.used) {
    const value now = m == comparison::member
                          ? value(lamina::reduce_any(lamina::unsqueeze(x, axes(2)) == of(w.members), {.axes = {2}}))
                          : compared(m, x, v);
    condition = condition.empty() ? now : value(lamina::where(of(w.modes) == static_cast<double>(m), now, condition));
  }
  if (!w.tracks.empty()) condition = lamina::where(x != x, of(w.tracks) > 0, condition);
  const value side = value(lamina::apply<op::cast>({.to = dtype::int64}, condition));
  return lamina::gather(w.children, at * 2 + side, 0);
}

value members_of(node_call& c, const forest& f, dtype e) {
  std::size_t max = 1;
  for (const auto& m : f.members) max = std::max(max, m.size());
  if (max > (std::size_t{1} << 24) / f.size()) c.unsupported("sets of ", max, " members are too large");
  c.take(f.size() * max * sizeof(double));
  std::vector<double> table(f.size() * max, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < f.size(); ++i)
    std::copy(f.members[i].begin(), f.members[i].end(), table.begin() + static_cast<std::ptrdiff_t>(i * max));
  return table_of(c, table, e, {static_cast<std::int64_t>(f.size()), static_cast<std::int64_t>(max)});
}

// The leaf that each sample reaches in each tree: [N, T].
value leaves_of(node_call& c, const value& x, const forest& f) {
  const std::int64_t depth = depth_of(c, f);
  const auto n = static_cast<std::int64_t>(f.size());
  walk w{.x = x,
         .features = integers(c, f.features),
         .values = table_of(c, f.values, x.type().element, {n}),
         .children = {},
         .modes = {},
         .tracks = {},
         .members = {},
         .used = {}};
  std::vector<std::int64_t> children, modes;
  bool tracks = false;
  for (std::size_t i = 0; i < f.size(); ++i) {
    children.push_back(f.no[i]), children.push_back(f.yes[i]);
    modes.push_back(static_cast<std::int64_t>(f.modes[i]));
    tracks = tracks || f.tracks[i] != 0 || f.modes[i] == comparison::neq;
    if (f.modes[i] != comparison::leaf && std::find(w.used.begin(), w.used.end(), f.modes[i]) == w.used.end())
      w.used.push_back(f.modes[i]);
  }
  w.children = integers(c, children);
  if (w.used.size() > 1) w.modes = integers(c, modes);
  if (tracks) w.tracks = integers(c, f.tracks);
  if (std::find(w.used.begin(), w.used.end(), comparison::member) != w.used.end())
    w.members = members_of(c, f, x.type().element);
  value at = lamina::unsqueeze(lamina::positions(x, 0) * 0, axes(1)) + integers(c, f.roots);
  constexpr std::int64_t written_out = 32;
  if (depth <= written_out) {
    for (std::int64_t i = 0; i < depth; ++i) at = step(w, at);
    return at;
  }
  // One loop body for all levels; it ignores the level.
  auto body = std::make_shared<ir::program>();
  const value inside = body->input("at", at.type());
  body->input("level", {dtype::int64, {}});
  std::vector<value> invariants;
  for (value* v : {&w.x, &w.features, &w.values, &w.children, &w.modes, &w.tracks, &w.members})
    if (!v->empty()) {
      invariants.push_back(*v);
      *v = body->input("table", v->type());
    }
  body->output("at", step(w, inside));
  const value carried[] = {at}, levels[] = {c.constant(any_tensor({dtype::int64, {depth}}))};
  return lamina::scan(body, view<const value>(carried), view<const value>(levels), view<const value>(invariants))[0];
}

// ---- weights of leaves ----------------------------------------------------------------------------------------------

struct votes {
  std::vector<std::int64_t> nodes{}, targets{};
  std::vector<double> weights{};
};
enum class aggregate : std::uint8_t { average, sum, min, max };

// Aggregated leaf weights per target: [N, targets].
value aggregated(node_call& c, const value& leaves, const forest& f, const votes& v, std::int64_t targets,
                 aggregate how, dtype e) {
  const auto n = static_cast<std::int64_t>(f.size());
  if (targets < 1 || targets > (std::int64_t{1} << 25) / n) c.unsupported(targets, " targets for ", n, " nodes");
  const double nothing = how == aggregate::min   ? std::numeric_limits<double>::infinity()
                         : how == aggregate::max ? -std::numeric_limits<double>::infinity()
                                                 : 0;
  if (targets > 1) c.take(static_cast<std::size_t>(n * targets) * sizeof(float));
  std::vector<double> table(static_cast<std::size_t>(n * targets), nothing);
  for (std::size_t i = 0; i < v.nodes.size(); ++i) {
    if (v.targets[i] < 0 || v.targets[i] >= targets) c.fail("invalid target ", v.targets[i], " of ", targets);
    double& w = table[static_cast<std::size_t>(v.nodes[i] * targets + v.targets[i])];
    if (how == aggregate::min) w = std::min(w, v.weights[i]);
    else if (how == aggregate::max) w = std::max(w, v.weights[i]);
    else w += v.weights[i];
  }
  const bool one = targets == 1;
  const value all = lamina::gather(table_of(c, table, e, one ? shape{n} : shape{n, targets}), leaves, 0);
  const reduce_attributes over{.axes = {1}, .keepdim = one};
  if (how == aggregate::sum) return lamina::reduce_sum(all, over);
  if (how == aggregate::average) return lamina::reduce_sum(all, over) / static_cast<double>(f.roots.size());
  const value y = how == aggregate::min ? value(lamina::reduce_min(all, over)) : value(lamina::reduce_max(all, over));
  return lamina::where(lamina::abs(y) == std::numeric_limits<double>::infinity(), 0, y);
}

// ---- trees by ids: classifier and regressor -------------------------------------------------------------------------

struct named_forest {
  forest f{};
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> places{};  // by tree and node
  std::int64_t at(node_call& c, std::int64_t tree, std::int64_t node) const {
    const auto found = places.find({tree, node});
    if (found == places.end()) c.fail("tree ", tree, " has no node ", node);
    return found->second;
  }
};
named_forest named_trees(node_call& c) {
  named_forest n;
  forest& f = n.f;
  const auto trees = c.node_call::integers("nodes_treeids"), nodes = c.node_call::integers("nodes_nodeids"),
             yes = c.node_call::integers("nodes_truenodeids"), no = c.node_call::integers("nodes_falsenodeids");
  const auto modes = c.strings("nodes_modes");
  f.features = c.node_call::integers("nodes_featureids");
  f.values = numbers_of(c, "nodes_values");
  f.tracks = c.node_call::integers("nodes_missing_value_tracks_true");
  const std::size_t count = trees.size();
  f.tracks.resize(f.tracks.empty() ? count : f.tracks.size());
  if (count == 0) c.fail("it has no nodes");
  std::set<std::int64_t> begun;
  for (std::size_t size :
       {nodes.size(), yes.size(), no.size(), modes.size(), f.features.size(), f.values.size(), f.tracks.size()})
    if (size != count) c.fail("its lists of nodes have ", size, " and ", count, " elements");
  for (std::size_t i = 0; i < count; ++i) {
    const auto mode = std::find(std::begin(comparison_names), std::end(comparison_names), modes[i]);
    if (mode == std::end(comparison_names) || *mode == "BRANCH_MEMBER")
      c.fail("node ", i, " has unknown mode `", printable(modes[i]), "`");
    f.modes.push_back(static_cast<comparison>(mode - std::begin(comparison_names)));
    if (!n.places.emplace(std::pair(trees[i], nodes[i]), static_cast<std::int64_t>(i)).second)
      c.fail("tree ", trees[i], " has two nodes ", nodes[i]);
    if (begun.insert(trees[i]).second)
      f.roots.push_back(static_cast<std::int64_t>(i));  // the first node of a tree is
                                                        // its root
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool leaf = f.modes[i] == comparison::leaf;
    f.yes.push_back(leaf ? static_cast<std::int64_t>(i) : n.at(c, trees[i], yes[i]));
    f.no.push_back(leaf ? static_cast<std::int64_t>(i) : n.at(c, trees[i], no[i]));
    if (leaf) f.features[i] = 0, f.values[i] = 0;
  }
  return n;
}
votes votes_of(node_call& c, const named_forest& n, const std::string& of) {
  votes v;
  const auto trees = c.node_call::integers(of + "_treeids"), nodes = c.node_call::integers(of + "_nodeids");
  v.targets = c.node_call::integers(of + "_ids");
  v.weights = numbers_of(c, of + "_weights");
  for (std::size_t size : {nodes.size(), v.targets.size(), v.weights.size()})
    if (size != trees.size()) c.fail("its lists of weights have ", size, " and ", trees.size(), " elements");
  for (std::size_t i = 0; i < trees.size(); ++i) v.nodes.push_back(n.at(c, trees[i], nodes[i]));
  return v;
}
value rows_of(node_call& c) {
  const value x = features_of(c, 0);
  return x.shape().rank == 1 ? value(lamina::unsqueeze(x, axes(0))) : x;
}

void tree_ensemble_regressor(node_call& c) {
  const value x = rows_of(c);
  const dtype e = x.type().element;
  const named_forest n = named_trees(c);
  const std::int64_t targets = c.integer("n_targets", 1);
  const std::string name = c.string("aggregate_function", "SUM");
  constexpr std::string_view names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const auto how = std::find(std::begin(names), std::end(names), name);
  if (how == std::end(names)) c.fail("unknown aggregate function `", printable(name), "`");
  value y = aggregated(c, leaves_of(c, x, n.f), n.f, votes_of(c, n, "target"), targets,
                       static_cast<aggregate>(how - std::begin(names)), e);
  const auto base = numbers_of(c, "base_values");
  if (!base.empty()) y = y + table_of(c, base, e, {static_cast<std::int64_t>(base.size())});
  c.give(0, c.cast_to(transformed(c, y, post_transform(c)), dtype::float32));
}

value column(const value& x, std::int64_t i) { return lamina::slice(x, {.start = i, .stop = i + 1, .axis = 1}); }
value concat_columns(const value& a, const value& b) {
  const value both[] = {a, b};
  return lamina::concat(view<const value>(both), 1);
}

// Two classes, only one of which has weights. Weights of the first class count for the second, as in ONNX Runtime.
void two_classes(node_call& c, value y, const votes& v, const std::vector<double>& base,
                 const std::vector<std::int64_t>& labels) {
  const std::string how = post_transform(c);
  const bool of_second = !v.targets.empty() && v.targets[0] == 1;
  const value both = y;
  y = column(y, of_second ? 1 : 0);
  if (!base.empty()) y = y + base.back();
  const bool positive = std::all_of(v.weights.begin(), v.weights.end(), [](double w) { return w >= 0; });
  const value second = lamina::squeeze(y, axes(1)) > (positive ? 0.5 : 0);
  c.give(0, labels_at(c, labels, c.cast_to(second, dtype::int64)));
  if (of_second)
    y = transformed(
        c, base.size() == 2 ? concat_columns(column(both, 0) + base[0], y) : concat_columns(column(both, 0), y), how);
  else if (base.size() == 2 || how == "LOGISTIC") y = transformed(c, concat_columns(-y, y), how);
  else y = transformed(c, positive ? concat_columns(1 - y, y) : concat_columns(-y, y), how == "PROBIT" ? how : "NONE");
  c.give(1, c.cast_to(y, dtype::float32));
}

void tree_ensemble_classifier(node_call& c) {
  const value x = rows_of(c);
  const dtype e = x.type().element;
  const named_forest n = named_trees(c);
  const auto labels = labels_of(c, "classlabels");
  const votes v = votes_of(c, n, "class");
  const auto classes = static_cast<std::int64_t>(labels.size());
  if (classes < 1) c.fail("it has no labels");
  value y = aggregated(c, leaves_of(c, x, n.f), n.f, v, classes, aggregate::sum, e);
  const auto base = numbers_of(c, "base_values");
  const bool one = std::all_of(v.targets.begin(), v.targets.end(), [&](auto t) { return t == v.targets[0]; });
  if (classes == 2 && one) return two_classes(c, y, v, base, labels);
  if (!base.empty()) y = y + table_of(c, base, e, {static_cast<std::int64_t>(base.size())});
  if (classes == 1)
    c.give(0, lamina::where(lamina::squeeze(y, axes(1)) > 0, c.constant(static_cast<double>(labels[0]), dtype::int64),
                            c.constant(0.0, dtype::int64)));
  else c.give(0, labels_at(c, labels, largest_of(y)));
  const std::string how = post_transform(c);
  c.give(1, c.cast_to(classes > 1 || how == "PROBIT" ? transformed(c, y, how) : y, dtype::float32));
}

// ---- trees by positions ---------------------------------------------------------------------------------------------

std::vector<std::int64_t> children_of(node_call& c, const std::string& side, std::size_t nodes, std::size_t leaves) {
  auto ids = c.node_call::integers("nodes_" + side + "nodeids");
  const auto leaf = c.node_call::integers("nodes_" + side + "leafs");
  if (ids.size() != nodes || leaf.size() != nodes) c.fail("its lists of nodes differ in length");
  for (std::size_t i = 0; i < nodes; ++i) {
    const auto max = static_cast<std::int64_t>(leaf[i] ? leaves : nodes);
    if (ids[i] < 0 || ids[i] >= max) c.fail("node ", i, " has invalid child ", ids[i], " of ", max);
    if (leaf[i]) ids[i] += static_cast<std::int64_t>(nodes);
  }
  return ids;
}
// Reads the sets of membership nodes, each terminated by a NaN.
void read_members(node_call& c, forest& f) {
  const auto all = c.tensor("membership_values");
  f.members.resize(f.size());
  if (!all) return;
  const auto numbers = [&] {
    std::vector<double> made;
    with_type(all->element(), [&]<class T>() {
      if constexpr (std::is_convertible_v<T, double>)
        for (auto v : all->elements<T>()) made.push_back(static_cast<double>(v));
    });
    return made;
  }();
  std::size_t at = 0;
  for (std::size_t i = 0; i < f.size(); ++i) {
    if (f.modes[i] != comparison::member) continue;
    while (at < numbers.size() && !std::isnan(numbers[at])) f.members[i].push_back(numbers[at++]);
    ++at;
  }
}

void tree_ensemble(node_call& c) {
  const value x = c.number(0);
  const dtype e = x.type().element;
  forest f;
  votes v;
  v.targets = c.node_call::integers("leaf_targetids");
  const auto weights = c.tensor("leaf_weights"), splits = c.tensor("nodes_splits"), modes = c.tensor("nodes_modes");
  if (!weights || !splits || !modes) c.fail("its leaves, splits or modes are missing");
  const auto read = [](const any_tensor& t) {
    std::vector<double> made;
    with_type(t.element(), [&]<class T>() {
      if constexpr (std::is_convertible_v<T, double>)
        for (auto n : t.elements<T>()) made.push_back(static_cast<double>(n));
    });
    return made;
  };
  v.weights = read(*weights), f.values = read(*splits);
  for (double m : read(*modes)) {
    if (!(m >= 0 && m <= 6)) c.fail("unknown mode ", m);
    f.modes.push_back(static_cast<comparison>(static_cast<int>(m)));
  }
  const std::size_t nodes = f.modes.size(), leaves = v.weights.size();
  f.features = c.node_call::integers("nodes_featureids");
  f.tracks = c.node_call::integers("nodes_missing_value_tracks_true");
  if (f.tracks.empty()) f.tracks.resize(nodes);
  if (nodes == 0 || f.values.size() != nodes || f.features.size() != nodes || f.tracks.size() != nodes ||
      v.targets.size() != leaves)
    c.fail("its lists of nodes or leaves differ in length");
  f.yes = children_of(c, "true", nodes, leaves), f.no = children_of(c, "false", nodes, leaves);
  f.roots = c.node_call::integers("tree_roots");
  if (f.roots.empty()) c.fail("it has no trees");
  for (auto r : f.roots)
    if (r < 0 || r >= static_cast<std::int64_t>(nodes)) c.fail("invalid root ", r, " of ", nodes, " nodes");
  for (std::size_t i = 0; i < leaves; ++i) {
    const auto self = static_cast<std::int64_t>(nodes + i);
    f.modes.push_back(comparison::leaf), f.features.push_back(0), f.values.push_back(0), f.tracks.push_back(0);
    f.yes.push_back(self), f.no.push_back(self), v.nodes.push_back(self);
  }
  read_members(c, f);
  const std::int64_t how = c.integer("aggregate_function", 1), after = c.integer("post_transform", 0);
  constexpr std::string_view transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  if (how < 0 || how > 3 || after < 0 || after > 4) c.fail("unknown aggregate function ", how, " or transform ", after);
  const value y = aggregated(c, leaves_of(c, x, f), f, v, c.integer("n_targets", 1), static_cast<aggregate>(how), e);
  c.give_like(0, transformed(c, y, transforms[after]));
}

constexpr converter_entry entries[] = {
    {"TreeEnsemble", 5, tree_ensemble},
    {"TreeEnsembleClassifier", 1, tree_ensemble_classifier},
    {"TreeEnsembleRegressor", 1, tree_ensemble_regressor},
};

}  // namespace

converter_list tree_converters() { return entries; }

}  // namespace lamina::onnx
