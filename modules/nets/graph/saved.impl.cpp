module lamina:graph.saved.impl;
import :core;
import :dtype;
import :graph;
import :graph.symbol_table;
import :graph.model;
import :graph.saved;
import :graph.workspace;
import :parameter;
import :program;
import :saved;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

namespace {

constexpr std::string_view name_key = "lamina.graph.net", model_key = "lamina.graph.model",
                           parameter_key = "lamina.graph.parameter.";
constexpr std::string_view seed_key = "lamina.graph.seed";
constexpr std::string_view tags[] = {"weight", "bias", "computed"};

// The workspace's value of a blob that a saved net includes. Errors: value_error naming net and blob.
any_tensor kept(const runnable& r, const workspace& ws, const std::string& name) {
  if (ws.has(name)) return ws.fetch(name);
  text t;
  if (auto place = r.where.find(name); place != r.where.end()) t << place->second << ": ";
  t << "net `" << r.name << "`: there is no blob `" << name << "` in the workspace";
  const auto names = ws.blobs();
  const std::vector<std::string_view> there(names.begin(), names.end());
  suggest_names(t, name, there);
  lamina::detail::raise(error_kind::value, t);
}
// Values of a program's states: from the workspace, or the initial value of an internal state of the net.
parameter_store states_of(const runnable& r, const workspace& ws, const symbol_table& symbols) {
  parameter_store all;
  for (auto s : r.body->states()) {
    const std::string& name = r.body->at(s).name;
    const auto own = std::find_if(r.own.begin(), r.own.end(), [&](const auto& o) { return o.name == name; });
    symbol_table::kind kind;
    if (const auto known = symbols.kinds.find(name); known != symbols.kinds.end()) kind = known->second;
    else if (name.ends_with("/generator")) kind.role = state_role::generator;
    else if (!r.body->is_assigned(s)) kind.role = state_role::parameter;
    const bool begins = own != r.own.end() && !ws.has(name);
    all.add(name, begins ? own->first.copy() : kept(r, ws, name), kind.role, kind.trainable);
  }
  return all;
}
// Runs f; its value_errors then begin with the path of the written file.
template <class F> auto about_file(const std::string& path, F f) {
  try {
    return f();
  } catch (const value_error& e) {
    text t;
    lamina::detail::raise(error_kind::value, t << files_of_net(path).structure << ": " << e.what());
  }
}
std::string metadata_value(const std::map<std::string, std::string>& metadata, std::string_view key) {
  auto at = metadata.find(std::string(key));
  return at == metadata.end() ? std::string() : at->second;
}

net made_of(std::string_view name, const program& p, std::int64_t seed) {
  net n(name, {.seed = seed});
  auto& b = n.symbols();
  std::map<value_id, value> known;
  std::set<std::int32_t> own;  // internal states of the net
  for (auto i : p.inputs())
    known.insert_or_assign({i, 0}, b.add(p.at(i).name, b.body.input(p.at(i).name, p.at(i).results[0]), true));
  for (auto s : p.states()) {
    const node& state = p.at(s);
    value v;
    const bool number = state.results[0] == tensor_type{dtype::int64, {}},
               pair = state.results[0] == tensor_type{dtype::int64, {2}};
    if (pair && state.name == n.name() + "/generator") v = b.generator();
    if (number && state.name == n.name() + "/iterations") {
      n.iterations();
      for (const auto& o : b.owned)
        if (o.state.name == state.name) v = b.at(o.now);
    }
    if (!v.empty()) own.insert(s);
    else v = b.add(state.name, b.body.state(state.name, state.results[0]), true);
    known.insert_or_assign({s, 0}, v);
  }
  std::vector<value_id> roots;
  for (const auto& o : p.outputs()) roots.push_back(o.value);
  for (const auto& a : p.assignments()) roots.push_back(a.value);
  const auto runs = reached(p, roots, {}, purpose::training);
  add_nodes(b.body, p, p.reachable(), {}, known, purpose::both, [&](std::int32_t old_node, std::int32_t new_node) {
    b.notes[static_cast<std::size_t>(new_node)].inference = !runs[static_cast<std::size_t>(old_node)];
  });
  for (const auto& o : p.outputs()) {
    b.check_free(o.name);
    b.add(o.name, known.at(o.value), false);
  }
  for (const auto& a : p.assignments())
    if (!own.contains(a.state))
      b.assign(p.at(a.state).name, b.blobs.find(p.at(a.state).name)->second, known.at(a.value));
  return n;
}

}  // namespace

net net_of(std::string_view name, const program& p, const origin&) { return made_of(name, p, 0); }
net net_of(std::string_view name, const program& p, const parameter_store& states, const origin&) {
  net n = made_of(name, p, 0);
  for (std::size_t i = 0; i < states.size(); ++i)
    n.symbols().kinds.insert_or_assign(states[i].name(), symbol_table::kind{states[i].role(), states[i].trainable()});
  return n;
}
void feed(workspace& ws, const parameter_store& states) {
  for (std::size_t i = 0; i < states.size(); ++i) ws.feed(states[i].name(), states[i].value());
}

saved_net snapshot(const net& n, const workspace& ws, const origin&) {
  const auto r = n.to_run();
  return {r->body, states_of(*r, ws, n.symbols())};
}
saved_net snapshot(const net& n, const workspace& ws, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs, const origin&) {
  const net part = n.clone_partial(n.name(), inputs, outputs);
  const auto r = part.to_run();
  const program& from = *r->body;
  std::set<std::string> given;  // full names of the inputs
  for (const auto& name : inputs) given.insert(n.symbols().known(name)->first);
  auto p = std::make_shared<program>();
  p->title = from.title;
  std::map<value_id, value> known;
  for (auto i : from.inputs()) {
    const node& leaf = from.at(i);
    const tensor_type& takes = leaf.results[0];
    if (given.contains(leaf.name)) {
      known.insert_or_assign({i, 0}, p->input(leaf.name, takes));
      continue;
    }
    const tensor_type is = kept(*r, ws, leaf.name).type();
    if (text t; is.element != takes.element || !fits(takes.dims, is.dims))
      lamina::detail::raise(
          is.element == takes.element ? error_kind::shape : error_kind::type,
          t << "net `" << n.name() << "`: blob `" << leaf.name << "` is " << is << "; expected " << takes);
    known.insert_or_assign({i, 0}, p->state(leaf.name, is));
  }
  for (auto i : from.states()) known.insert_or_assign({i, 0}, p->state(from.at(i).name, from.at(i).results[0]));
  add_nodes(*p, from, from.reachable(), {}, known);
  for (const auto& o : from.outputs()) p->output(o.name, known.at(o.value));
  for (const auto& a : from.assignments()) p->assign(known.at({a.state, 0}), known.at(a.value));
  return {p, states_of({r->name, p, r->own, r->where}, ws, part.symbols())};
}

void save(const std::string& path, const net& n, const workspace& ws, const origin&) {
  const auto s = about_file(path, [&] { return snapshot(n, ws); });
  save_net(path, *s.program, s.states, {{std::string(name_key), n.name()}});
}
net load(const std::string& path, workspace& into, const origin&) {
  const saved_net s = load_net(path);
  std::string name = metadata_value(s.metadata, name_key);
  if (name.empty()) name = files_of_net(path).structure;
  net n = net_of(name, *s.program, s.states);
  feed(into, s.states);
  return n;
}

void save(const std::string& path, const model& m, const workspace& ws, const origin&) {
  const std::string base = files_of_net(path).structure;
  const std::string init = base.substr(0, base.size() - std::string_view(".json").size()) + "_init";
  std::map<std::string, std::string> metadata{{std::string(name_key), m.main().name()}};
  const auto& o = m.options();
  metadata[std::string(model_key)] =
      std::string(o.element == dtype::float64 ? "float64" : "float32") + (o.training ? " training" : " inference");
  metadata[std::string(seed_key)] = std::to_string(o.seed);
  const auto parameters = m.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string number = std::to_string(i);
    metadata[std::string(parameter_key) + std::string(6 - std::min<std::size_t>(number.size(), 6), '0') + number] =
        std::string(tags[static_cast<std::size_t>(parameters[i].tag)]) +
        (parameters[i].updated ? " updated " : " fixed ") + parameters[i].name;
  }
  const auto first = m.init().to_run();
  const auto filled = about_file(init, [&] { return states_of(*first, ws, m.init().symbols()); });
  save_net(init, *first->body, filled, {{std::string(name_key), m.init().name()}});
  const auto main = m.main().symbols().as_runnable(purpose::both);
  save_net(path, *main->body, about_file(path, [&] { return states_of(*main, ws, m.main().symbols()); }), metadata);
}
std::unique_ptr<model> load_model(const std::string& path, workspace& into, const origin&) {
  const auto file = files_of_net(path);
  const std::string init = file.structure.substr(0, file.structure.size() - std::string_view(".json").size()) + "_init";
  const saved_net s = load_net(path), first = load_net(init);
  const auto fail = [&](std::string_view why) {
    text t;
    lamina::detail::raise(error_kind::file, t << file.weights << ": " << why);
  };
  const std::string kind = metadata_value(s.metadata, model_key), name = metadata_value(s.metadata, name_key);
  if (kind.empty() || name.empty()) fail("these are not the weights of a saved graph::model");
  model_options o;
  o.element = kind.starts_with("float64") ? dtype::float64 : dtype::float32;
  o.training = kind.ends_with("training");
  const std::string seed = metadata_value(s.metadata, seed_key);
  o.seed = std::strtoll(seed.c_str(), nullptr, 10);
  net main = made_of(name, *s.program, o.seed), start = made_of(name + "_init", *first.program, o.seed);
  std::vector<parameter_info> parameters;
  for (const auto& [key, description] : s.metadata) {
    if (!key.starts_with(parameter_key)) continue;
    const auto gap = description.find(' '), second = description.find(' ', gap + 1);
    const auto tag = std::find(std::begin(tags), std::end(tags), std::string_view(description).substr(0, gap));
    if (gap == description.npos || second == description.npos || tag == std::end(tags))
      fail("metadata of a parameter is not `tag updated name`");
    parameter_info p{description.substr(second + 1), {}, static_cast<parameter_tag>(tag - std::begin(tags))};
    const parameter* state = s.states.find(p.name);
    p.frozen = p.tag != parameter_tag::computed && state && !state->trainable();
    p.updated = description.substr(gap + 1, second - gap - 1) == "updated";
    const auto blob = main.symbols().blobs.find(p.name);
    if (blob == main.symbols().blobs.end() || !blob->second.external)
      fail("metadata names a parameter that the net does not have");
    p.at = main.symbols().at(blob->second.versions[0]);
    parameters.push_back(std::move(p));
  }
  auto m = std::make_unique<model>(std::move(main), std::move(start), o, std::move(parameters));
  feed(into, s.states);
  feed(into, first.states);
  return m;
}

}  // namespace lamina::graph
