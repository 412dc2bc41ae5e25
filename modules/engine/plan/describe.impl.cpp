// Runs the phases one after the other, and describes their decisions as text.
module lamina:plan.describe.impl;
import :core;
import :dtype;
import :emission;
import :passes;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::planning {

decisions decide(const request& r) {
  decisions d;
  d.used = analyze(r);
  d.forms = lay_out(r, d.used);
  d.groups = group_nodes(r, d.used, d.forms);
  put_rows_first(r, d.used, d.groups, d.forms);
  round_images(r, d.used, d.groups, d.forms);
  d.views = find_views(r, d.used, d.forms, d.groups);
  d.order = schedule(r, d.used, d.forms, d.groups, d.views);
  d.places = place(r, d.used, d.forms, d.groups, d.views, d.order);
  return d;
}

namespace {

class description {
 public:
  description(const request& r, const decisions& all) : p_(r.of), d_(all) {}

  std::string run() {
    t_ << "analyze: " << (d_.used.gradients ? "takes gradients" : "inference") << "\n";
    for (std::size_t i = 0; i < p_.nodes().size(); ++i)
      if (d_.used.needed[i]) print_value({static_cast<std::int32_t>(i), 0});
    t_ << "group:\n";
    for (const auto& g : d_.groups.groups) print_group(g);
    t_ << "schedule:\n";
    for (const auto& it : d_.order.items) print_item(it);
    return t_.string();
  }

 private:
  void print(value_id v) {
    t_ << "%" << v.node;
    if (v.result) t_ << "." << v.result;
  }

  void print_value(value_id v) {
    const node& n = p_.at(v);
    t_ << "  ";
    print(v);
    t_ << " = " << (n.kind == node_kind::operation ? n.op->name : n.kind == node_kind::constant ? "constant" : n.name);
    for (auto in : n.inputs) {
      t_ << " ";
      print(in);
    }
    t_ << ", " << n.results[0] << ", " << name_of(d_.forms.form[v]) << ", read by " << d_.used.reader_count[v];
    if (d_.used.shape_read[static_cast<std::size_t>(v.node)]) t_ << ", shape read";
    if (d_.used.parameter_only[static_cast<std::size_t>(v.node)]) t_ << ", of parameters alone";
    if (d_.used.root[v]) t_ << ", a root";
    if (n.kind == node_kind::operation) print_home(v);
    t_ << "\n";
  }

  void print_home(value_id v) {
    const auto& h = d_.places.homes[v];
    if (const auto& seen = d_.views[v]; seen.of) {
      t_ << ", in ";
      print(seen.of);
      t_ << " at byte " << seen.offset;
    } else if (h.in == home::place::over) {
      t_ << ", over ";
      print(h.over);
    } else if (h.in == home::place::inside) {
      t_ << ", in ";
      print(h.over);
      t_ << " at byte " << h.offset;
    } else if (h.in != home::place::own)
      t_ << (h.in == home::place::output ? ", in output " : ", in state ") << h.index;
    if (const auto o = d_.places.plain_in.find(v); o != d_.places.plain_in.end())
      t_ << ", plain in output " << o->second;
  }

  void print_group(const group& g) {
    t_ << "  " << (g.chain ? "chain" : "product");
    for (auto m : g.nodes) t_ << " %" << m;
    if (g.tail.bias) t_ << ", bias ", print(g.tail.bias);
    if (g.tail.residual) t_ << (g.tail.sum ? ", sum with " : ", residual "), print(g.tail.residual);
    if (g.tail.clamp) t_ << ", clamped to " << g.tail.low << ".." << g.tail.high;
    if (g.tail.windows) t_ << ", windows in bands";
    if (g.tail.windows_bias) t_ << ", bias ", print(g.tail.windows_bias);
    if (const auto& b = g.tail.windows_bounds) t_ << ", clamped to " << b->low << ".." << b->high;
    t_ << "\n";
  }

  void print_item(const plan_item& it) {
    t_ << "  level " << it.level << ":";
    if (it.what == plan_item::kind::reorder) {
      t_ << " ";
      print(it.result);
      t_ << " to " << name_of(it.to);
    }
    for (auto m : d_.order.nodes(d_.groups, it)) t_ << " %" << m;
    t_ << (it.once ? ", once" : "") << (it.late ? ", late" : "") << (it.may_fail ? ", may fail" : "") << "\n";
  }

  const program& p_;
  const decisions& d_;
  text t_;
};

}  // namespace

std::string describe(const request& r, const decisions& all) { return description(r, all).run(); }

}  // namespace lamina::planning
