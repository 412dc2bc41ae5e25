// What architecture.operation_names finds wrong.
bool is_relu(const node& n) {
  if (n.op->name == "relu") return true;
  return false;
}
