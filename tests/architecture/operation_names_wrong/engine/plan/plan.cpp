// Errors that architecture.operation_names must find.
bool is_relu(const node& n) {
  if (n.op->name == "relu") return true;
  return false;
}
