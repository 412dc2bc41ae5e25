// Copies, parts and concatenations of nets.
module lamina:graph.copy.impl;
import :core;
import :dtype;
import :graph;
import :graph.symbol_table;
import :op;
import :op.control;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

namespace {
// Index of the operand that replaces a training/inference operation for this purpose, or -1.
int replacing_operand(const node& n, purpose what) {
  if (what == purpose::both || !is_call_of<op::in_training>(n)) return -1;
  return what == purpose::inference ? 1 : 0;
}
}  // namespace

std::vector<char> reached(const program& p, const std::vector<value_id>& roots, const std::map<value_id, value>& known,
                          purpose what) {
  std::vector<char> needed(p.nodes().size());
  auto need = [&](value_id v) {
    if (!known.contains(v)) needed[static_cast<std::size_t>(v.node)] = 1;
  };
  for (auto v : roots) need(v);
  for (auto i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const node& n = p.nodes()[i];
    if (const int only = replacing_operand(n, what); only >= 0) need(n.inputs[static_cast<std::size_t>(only)]);
    else
      for (auto v : n.inputs) need(v);
  }
  return needed;
}

void add_nodes(program& to, const program& from, const std::vector<char>& needed, const dimension_names& names,
               std::map<value_id, value>& known, purpose what,
               const std::function<void(std::int32_t old_node, std::int32_t new_node)>& added) {
  for (std::size_t i = 0; i < from.nodes().size(); ++i) {
    const auto number = static_cast<std::int32_t>(i);
    const node& n = from.nodes()[i];
    if (!needed[i] || n.kind == node_kind::input || n.kind == node_kind::state || known.contains({number, 0})) continue;
    if (n.kind == node_kind::constant) {
      known.insert_or_assign({number, 0}, to.constant(n));
      continue;
    }
    if (const int only = replacing_operand(n, what); only >= 0) {
      known.insert_or_assign({number, 0}, known.at(n.inputs[static_cast<std::size_t>(only)]));
      continue;
    }
    std::vector<value> in;
    for (auto v : n.inputs) in.push_back(known.at(v));
    const path_of here(to, n.path);
    const value_id made =
        to.add(*n.op, n.op->bound ? n.op->bound(n.attributes.get(), names) : n.attributes, in, n.subprograms);
    for (std::size_t r = 0; r < n.results.size(); ++r) {
      const auto result = static_cast<std::int32_t>(r);
      known.try_emplace({number, result}, value(&to, {made.node, made.result + result}));
    }
    if (added) added(number, made.node);
  }
}

namespace {

// Checks that all names to be renamed exist. `results`: results may be listed by their automatic names, too.
void check(const symbol_table& b, const renaming& names, bool results) {
  for (const auto& n : names)
    if (!b.blobs.contains(n.first) && !b.aliases.contains(n.first) && !(results && b.find_automatic(n.first)))
      b.no_blob(n.first);
}
// Maps names of blobs and gradients to their names in a copy, which must be unique.
class copied_names {
 public:
  copied_names(const symbol_table& from, const renaming& names, std::string_view function)
      : from_(from), names_(names), function_(function) {}
  const std::string& operator()(const std::string& blob) {
    const auto known = names_.find(blob);
    const std::string& as = known == names_.end() ? blob : known->second;
    if (const auto of = taken_.try_emplace(as, blob).first; of->second != blob) {
      text t;
      t << function_ << ": `" << of->second << "` and `" << blob << "` would both be `" << as << "`";
      from_.fail(error_kind::state, t);
    }
    return as;
  }

 private:
  const symbol_table& from_;
  const renaming& names_;
  std::string_view function_;
  std::map<std::string, std::string, std::less<>> taken_;
};

// Copies nodes of one symbol table to another, and the internal states that they read.
void add_part(symbol_table& to, const symbol_table& from, const std::vector<char>& needed,
              std::map<value_id, value>& known, purpose what = purpose::both) {
  for (const auto& o : from.owned)
    if (needed[static_cast<std::size_t>(o.now.node)]) {
      std::string as = o.state.name;
      if (as.starts_with(from.name + "/")) as = to.name + as.substr(from.name.size());
      if (from.is_state(o.now.node)) {  // the net's single generator
        as = to.name + "/generator";
        to.generator();
      }
      auto entry =
          std::find_if(to.owned.begin(), to.owned.end(), [&](const auto& other) { return other.state.name == as; });
      if (entry != to.owned.end()) {
        known.insert_or_assign(o.now, to.at(entry->now));
        known.insert_or_assign(o.next, to.at(entry->next));
      } else {
        value now = to.body.input(as, o.state.first.type());
        to.names.insert_or_assign(now.id(), as);
        known.insert_or_assign(o.now, now);
      }
    }
  add_nodes(to.body, from.body, needed, {}, known, what, [&](std::int32_t old_node, std::int32_t new_node) {
    auto& note = to.notes[static_cast<std::size_t>(new_node)] = from.notes[static_cast<std::size_t>(old_node)];
    note.inference = note.inference && what == purpose::both;
  });
  for (const auto& o : from.owned) {
    if (!needed[static_cast<std::size_t>(o.now.node)]) continue;
    const value now = known.at(o.now), next = known.at(o.next);
    if (std::any_of(to.owned.begin(), to.owned.end(), [&](const auto& entry) { return entry.now == now.id(); }))
      continue;
    to.owned.push_back({{to.body.at(now.id()).name, o.state.first}, now.id(), next.id(), to.body.outputs().size()});
    to.body.output(to.body.at(now.id()).name, next);
  }
}

// Copies a whole net: all versions of its blobs under their new names, in order, and the aliases.
void add_whole(symbol_table& to, const symbol_table& from, const renaming& names, std::string_view function) {
  check(from, names, false);
  copied_names renamed(from, names, function);
  for (const auto& b : from.blobs) renamed(b.first);
  for (const auto& a : from.aliases)
    if (!from.blobs.contains(a.first)) renamed(a.first);
  std::map<value_id, value> known;
  for (auto i : from.leaves()) {
    const node& n = from.body.at(i);
    auto blob = from.blobs.find(n.name);
    if (blob == from.blobs.end()) continue;  // an internal state of the net
    const std::string as = renamed(n.name);
    to.keep_kind(as, from, n.name);
    auto here = to.blobs.find(as);
    if (here == to.blobs.end()) {
      known.insert_or_assign(
          {i, 0},
          to.add(as, from.is_state(i) ? to.body.state(as, n.results[0]) : to.body.input(as, n.results[0]), true));
      continue;
    }
    const value v = to.at(here->second.versions.back());
    if (text t; v.type().element != n.results[0].element || !fits(n.results[0].dims, v.type().dims))
      to.fail(v.type().element == n.results[0].element ? error_kind::shape : error_kind::type,
              t << "blob `" << as << "` is " << v.type() << " and net `" << from.name << "` takes " << n.results[0]);
    known.insert_or_assign({i, 0}, v);
  }
  std::vector<char> all(from.body.nodes().size(), 1);
  add_part(to, from, all, known);
  for (const auto& o : from.body.outputs()) {
    if (!from.blobs.contains(o.name)) continue;
    const std::string as = renamed(o.name);
    auto here = to.blobs.find(as);
    if (here == to.blobs.end()) to.add(as, known.at(o.value), false);
    else to.assign(as, here->second, known.at(o.value));
  }
  for (const auto& [as, id] : from.aliases)
    if (auto v = known.find(id); v != known.end()) {
      const std::string& called = renamed(as);
      to.aliases.try_emplace(called, v->second.id());
      to.names.try_emplace(v->second.id(), called);
    }
}

}  // namespace

net net::clone(std::string_view name, const renaming& names, const origin&) const {
  net copy(name, {.seed = symbols().seed});
  add_whole(copy.symbols(), symbols(), names, "clone");
  return copy;
}

void net::append(const net& other, const renaming& names, const origin&) {
  if (&other == this) symbols().fail(error_kind::state, text("append: a net is not added to itself; append a clone"));
  add_whole(symbols(), other.symbols(), names, "append");
}

net net::clone_partial(std::string_view name, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const renaming& names, const origin&) const {
  return part_of(*this, name, inputs, outputs, names, purpose::both);
}
net part_of(const net& whole, std::string_view name, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const renaming& names, purpose what) {
  auto& from = whole.symbols();
  check(from, names, true);
  copied_names renamed(from, names, "clone_partial");
  const auto found = [&](const std::string& requested) {
    auto known = from.known(requested);
    if (!known) from.no_blob(requested);
    return *std::move(known);
  };
  net copy(name, {.seed = from.seed});
  auto& to = copy.symbols();
  std::map<value_id, value> known;
  std::set<std::string> given;
  for (const auto& requested : inputs) {
    const auto [blob, newest] = found(requested);
    const std::string& as = renamed(blob);
    if (!given.insert(blob).second) continue;
    known.insert_or_assign(newest, to.add(as, to.body.input(as, from.body.type(newest)), true));
  }
  std::vector<std::pair<std::string, value_id>> requested;
  std::vector<value_id> roots;
  for (const auto& blob : outputs) {
    requested.push_back(found(blob));
    roots.push_back(requested.back().second);
  }
  std::vector<char> needed = reached(from.body, roots, known, what);
  for (const auto& o : from.owned)  // keep the update of each state that is needed
    if (needed[static_cast<std::size_t>(o.now.node)]) {
      roots.push_back(o.next);
      needed = reached(from.body, roots, known, what);
    }
  for (auto i : from.leaves())
    if (const std::string& blob = from.body.at(i).name;
        needed[static_cast<std::size_t>(i)] && !known.contains({i, 0}) && from.blobs.contains(blob)) {
      if (given.contains(blob)) {
        text t;
        from.fail(error_kind::value, t << "clone_partial: blob `" << blob
                                       << "` is an input in its newest version, but the outputs need an earlier one");
      }
      const std::string& as = renamed(blob);
      const tensor_type& type = from.body.at(i).results[0];
      to.keep_kind(as, from, blob);
      known.insert_or_assign({i, 0},
                             to.add(as, from.is_state(i) ? to.body.state(as, type) : to.body.input(as, type), true));
    }
  add_part(to, from, needed, known, what);
  for (const auto& [blob, newest] : requested)
    if (const std::string& as = renamed(blob); !to.blobs.contains(as)) to.add(as, known.at(newest), false);
  return copy;
}

std::map<std::string, tensor_type> net::infer(const std::map<std::string, shape>& inputs, const origin&) const {
  auto& b = symbols();
  for (const auto& given : inputs)
    if (auto blob = b.blobs.find(given.first); blob == b.blobs.end() || !blob->second.external) b.no_blob(given.first);
  program p;
  dimension_names names;
  std::map<value_id, value> known;
  for (auto i : b.leaves()) {
    const node& n = b.body.at(i);
    tensor_type type = n.results[0];
    if (auto given = inputs.find(n.name); given != inputs.end()) {
      text t;
      if (!fits(type.dims, given->second))
        b.fail(error_kind::shape, t << "infer: blob `" << n.name << "` is " << type.dims << "; got " << given->second);
      if (dim clash = names.bind(type.dims, given->second); clash.is_name())
        b.fail(error_kind::shape, t << "infer: dimension `" << clash << "` is not the same in all blobs; `" << n.name
                                    << "` gets " << given->second);
      type.dims = given->second;
    }
    known.insert_or_assign({i, 0}, p.input(n.name, type));
  }
  add_nodes(p, b.body, std::vector<char>(b.body.nodes().size(), 1), names, known);
  std::map<std::string, tensor_type> types;
  for (const auto& [id, v] : known)
    if (!b.notes[static_cast<std::size_t>(id.node)].inference) types.insert_or_assign(b.name_of(id), v.type());
  for (const auto& [as, blob] : b.blobs) types.insert_or_assign(as, known.at(blob.versions.back()).type());
  for (const auto& [as, id] : b.aliases) types.insert_or_assign(as, known.at(id).type());
  return types;
}

}  // namespace lamina::graph
