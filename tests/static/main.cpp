// Runs when every other file of this folder compiled.
int main() {}
