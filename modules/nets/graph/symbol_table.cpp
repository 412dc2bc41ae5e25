// Symbol table of a net: names and versions of its values, and internal states.
module lamina:graph.symbol_table;
import :core;
import :dtype;
import :graph;
import :graph.scope;
import :model;
import :op;
import :op.elementwise;
import :op.random;
import :parameter;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

// Which form of operations that differ between training and inference a copied program gets.
enum class purpose : std::uint8_t { both, training, inference };
// Marks the nodes that the roots depend on; the search stops at known values.
std::vector<char> reached(const program& p, const std::vector<value_id>& roots, const std::map<value_id, value>& known,
                          purpose what);
// Copies nodes of one program to another, except those whose values are already known.
void add_nodes(program& to, const program& from, const std::vector<char>& needed, const dimension_names& names,
               std::map<value_id, value>& known, purpose what = purpose::both,
               const std::function<void(std::int32_t old_node, std::int32_t new_node)>& added = nullptr);

// The symbol table of a net: its program, and the names of its values.
class symbol_table {
 public:
  struct blob {
    bool external = false;
    std::vector<value_id> versions;
    std::vector<std::string> where;  // source place of each version
    std::size_t output = 0;          // index of the newest version among the program's outputs
  };
  struct note {
    std::string scope, device;
    bool inference = false;  // belongs to the inference form of a layer that was added for training
  };

  // Role and trainability of a state in a file, such as those of a model's parameter.
  struct kind {
    state_role role = state_role::optimizer;
    bool trainable = false;
  };

  symbol_table(std::string_view net_name, const net_options& o) : name(net_name), seed(o.seed) {
    body.title = "net `" + name + "`";
    body.origins = true;
    body.added = [this](std::int32_t node) {
      notes.push_back({name_scope::current(), device_scope::current(), for_inference});
      draw_after(body.at(node));
    };
    std::uint64_t h = 0;
    for (char c : name) h = h * 31 + static_cast<unsigned char>(c);
    first_site = static_cast<std::int64_t>(h) % (std::int64_t(1) << 30) << 20;
  }
  // Reserves the site of a random node, which may come from another net or a file, so that later draws use other sites.
  // 32 bits identify a generator's stream; layers count sites from 0, fills from a base derived from the net's name.
  void draw_after(const node& n) {
    for (const auto& sub : n.subprograms)
      for (const node& inner : sub->nodes()) draw_after(inner);
    if (!is_call_of<op::random_uniform>(n) && !is_call_of<op::random_normal>(n)) return;
    const auto at = static_cast<std::uint32_t>(static_cast<const random_attributes*>(n.attributes.get())->site);
    for (const std::uint32_t k : {at, at - static_cast<std::uint32_t>(first_site)})
      if (k < std::uint32_t(1) << 20 && k >= body.sites()) body.sites(std::int64_t(k) + 1);
  }

  [[noreturn]] void fail(error_kind kind, const text& why) const {
    text t;
    if (auto here = body.place(); !here.empty()) t << here << ": ";
    detail::raise(kind, t << body.title << ": " << why);
  }
  [[noreturn]] void no_blob(std::string_view requested) const {
    text t;
    std::vector<std::string_view> there;
    for (const auto& b : blobs) there.push_back(b.first);
    for (const auto& a : aliases) there.push_back(a.first);
    std::vector<std::string> results;  // automatic names always contain '/'
    if (requested.find('/') != requested.npos)
      for (std::size_t i = 0; i < body.nodes().size(); ++i)
        for (std::size_t r = 0; r < body.nodes()[i].results.size(); ++r)
          if (const value_id id{static_cast<std::int32_t>(i), static_cast<std::int32_t>(r)}; !names.contains(id))
            results.push_back(name_of(id));
    std::erase(results, requested);
    there.insert(there.end(), results.begin(), results.end());
    t << "there is no blob `" << requested << "`";
    suggest_names(t, requested, there);
    fail(error_kind::value, t);
  }
  void check_owned(const value& v, std::string_view what) const {
    text t;
    if (v.empty()) fail(error_kind::value, t << what << " is an empty value");
    if (&v.owner() != &body)
      fail(error_kind::state, t << what << " belongs to "
                                << (v.owner().title.empty() ? "another program" : v.owner().title)
                                << "; `external(v)` makes it an input here, by its name");
  }
  std::string full(std::string_view given) const {
    if (given.empty()) fail(error_kind::value, text("a blob needs a name"));
    return name_scope::current() + std::string(given);
  }
  // Looks up a blob by its name in the current scope, then by its full name. Returns its entry, or null.
  std::pair<const std::string, blob>* find(std::string_view given) {
    auto b = blobs.find(name_scope::current() + std::string(given));
    if (b == blobs.end()) b = blobs.find(given);
    return b == blobs.end() ? nullptr : &*b;
  }
  // Resolves a name in the order of `find`: a blob's newest version, a gradient, or a result by its automatic name.
  // Returns the full name, too.
  std::optional<std::pair<std::string, value_id>> known(std::string_view given) {
    if (const auto* b = find(given)) return std::pair(b->first, b->second.versions.back());
    for (const auto& as : {name_scope::current() + std::string(given), std::string(given)})
      if (const auto a = aliases.find(as); a != aliases.end()) return std::pair(as, a->second);
    if (const auto result = find_automatic(given)) return std::pair(std::string(given), *result);
    return {};
  }
  // Whether a full name is in use.
  bool has(std::string_view whole) const {
    return blobs.contains(whole) || aliases.contains(whole) || find_automatic(whole);
  }
  value at(value_id id) { return {&body, id}; }
  // Nodes of external blobs and of internal states.
  std::vector<std::int32_t> leaves() const {
    std::vector<std::int32_t> all = body.inputs();
    all.insert(all.end(), body.states().begin(), body.states().end());
    return all;
  }
  bool is_state(std::int32_t node) const { return body.at(node).kind == node_kind::state; }
  std::string here() const {
    const std::string p = body.place();
    return p.empty() ? "an unknown place" : p;
  }

  value add(const std::string& as, const value& v, bool external) {
    blob& b = blobs[as];
    b.external = b.external || external;
    if (b.versions.empty()) begun[v.id()].insert(as);
    b.versions.push_back(v.id());
    b.where.push_back(here());
    names.try_emplace(v.id(), as);
    if (!external) {
      b.output = body.outputs().size();
      body.output(as, v);
    }
    made.reset();
    return v;
  }
  // Raises an error if a name is taken; the gradient `of` may keep its own name.
  void check_free(const std::string& as, value_id of = {}) const {
    text t;
    if (auto a = aliases.find(as); a != aliases.end() && a->second != of)
      fail(error_kind::state, t << "`" << as << "` already exists and belongs to a gradient");
    auto b = blobs.find(as);
    if (b == blobs.end()) return;
    fail(error_kind::state, t << "blob `" << as << "` already exists, from " << b->second.where[0]
                              << "; `assign` gives it another version");
  }
  value assign(const std::string& as, blob& b, const value& next) {
    check_owned(next, "the new value of `" + as + "`");
    const tensor_type& is = body.type(b.versions.back());
    const tensor_type& given = next.type();
    text t;
    if (is.element != given.element || !fits(is.dims, given.dims))
      fail(is.element == given.element ? error_kind::shape : error_kind::type,
           t << "blob `" << as << "` is " << is << " and is assigned " << given);
    if (b.external && !is.dims.is_static())
      fail(error_kind::shape,
           t << "blob `" << as << "` is " << is << "; an assigned external blob needs a known shape");
    b.versions.push_back(next.id());
    b.where.push_back(here());
    names.try_emplace(next.id(), as);
    b.output = body.outputs().size();
    body.output(as, next);
    made.reset();
    return next;
  }
  // Adds an internal state of the net. `step` computes its next value, which becomes an output of the program under its
  // name.
  value own(const std::string& as, const value& v, const any_tensor& first,
            const std::function<value(const value&)>& step, value* next = nullptr) {
    const value after = step(v);
    names.insert_or_assign(v.id(), as);
    owned.push_back({{as, first}, v.id(), after.id(), body.outputs().size()});
    body.output(as, after);
    made.reset();
    if (next) *next = after;
    return v;
  }
  // Copies role and trainability of a blob from another net.
  void keep_kind(const std::string& as, const symbol_table& from, const std::string& there) {
    if (auto known = from.kinds.find(there); known != from.kinds.end()) kinds.try_emplace(as, known->second);
  }
  // The generator for fills and layers: a state of the program under the name that layers expect.
  value generator() {
    for (const auto& o : owned)
      if (o.state.name == name + "/generator") return at(o.now);
    any_tensor first(tensor_type{dtype::int64, {2}}), step(tensor_type{dtype::int64, {2}});
    const std::int64_t begin[] = {seed, 0}, one[] = {0, 1};
    std::memcpy(first.mutable_data(), begin, sizeof begin);
    std::memcpy(step.mutable_data(), one, sizeof one);
    return own(name + "/generator", body.state(generator_name, first.type()), first,
               [&](const value& v) { return v + body.constant(step); });
  }

  // The net in runnable form: for a workspace, or with both forms of its layers for a file.
  std::shared_ptr<const runnable> as_runnable(purpose what) const;

  // Appends the source place of each version of a blob.
  void history(text& t, const std::string& as) const {
    const blob& b = blobs.find(as)->second;
    t << "`" << as << "` has " << b.versions.size() << " versions:";
    for (std::size_t i = 0; i < b.versions.size(); ++i)
      t << (i ? ", " : " ") << i << (i ? " assigned at " : b.external ? " external at " : " made at ") << b.where[i];
  }

  // Automatic name of a node, from net, scope and operation, numbered in node order.
  const std::string& automatic(std::int32_t node) const {
    while (automatic_names.size() <= static_cast<std::size_t>(node)) {
      const auto i = automatic_names.size();
      const lamina::node& n = body.nodes()[i];
      std::string base = name + "/" + notes[i].scope + (notes[i].inference ? "inference/" : "") +
                         std::string(n.op                            ? n.op->name
                                     : n.kind == node_kind::constant ? "constant"
                                                                     : n.name);
      const int k = ++counts[base];
      automatic_names.push_back(k == 1 ? base : base + "_" + std::to_string(k));
      by_automatic_name[automatic_names.back()].push_back(static_cast<std::int32_t>(i));
    }
    return automatic_names[static_cast<std::size_t>(node)];
  }
  std::string name_of(value_id id) const {
    if (auto known = names.find(id); known != names.end()) return known->second;
    std::string s = automatic(id.node);
    if (body.at(id).results.size() > 1) s += ":" + std::to_string(id.result);
    std::string as = s;  // blobs and gradients take precedence
    for (int i = 0; blobs.contains(as) || aliases.contains(as); ++i) as = s + "_auto_" + std::to_string(i);
    return as;
  }

  // The result with this automatic name; named values have none.
  std::optional<value_id> find_automatic(std::string_view given) const {
    if (body.nodes().empty()) return {};
    automatic(static_cast<std::int32_t>(body.nodes().size()) - 1);
    const auto without = [](std::string_view s, std::string_view mark) {  // the mark and a number at the end
      const auto at = s.rfind(mark);
      const bool number =
          at != s.npos && at + mark.size() < s.size() && s.find_first_not_of("0123456789", at + mark.size()) == s.npos;
      return number ? s.substr(0, at) : s;
    };
    for (const auto whole : {given, without(given, "_auto_")})
      for (const auto node_name : {whole, without(whole, ":")}) {
        const auto at = by_automatic_name.find(node_name);
        if (at == by_automatic_name.end()) continue;
        for (auto n : at->second)
          for (std::int32_t r = 0; r < static_cast<std::int32_t>(body.at(n).results.size()); ++r)
            if (name_of({n, r}) == given) return value_id{n, r};
      }
    return {};
  }

  struct owned_state {
    runnable::own_state state;
    value_id now, next;
    std::size_t output;
  };
  std::string name;
  std::int64_t seed, first_site = 0;
  program body;
  std::map<std::string, blob, std::less<>> blobs;
  std::vector<owned_state> owned;
  std::map<value_id, std::string> names;
  std::map<value_id, std::set<std::string>> begun;       // blobs by their first version
  std::map<std::string, value_id, std::less<>> aliases;  // names of gradients, which are not blobs
  std::map<std::string, kind, std::less<>> kinds;        // of external blobs that have a role
  std::vector<note> notes;                               // per node
  bool for_inference = false;                            // whether added nodes belong to the inference form
  mutable std::vector<std::string> automatic_names;
  mutable std::map<std::string, int> counts;
  mutable std::map<std::string, std::vector<std::int32_t>, std::less<>> by_automatic_name;
  mutable std::shared_ptr<const runnable> made;
};

// The part of a net that computes the outputs from the inputs, in the given form.
net part_of(const net& whole, std::string_view name, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const renaming& names, purpose what);

}  // namespace lamina::graph
