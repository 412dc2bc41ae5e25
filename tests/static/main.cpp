// Runs once every other file of this folder has compiled.
int main() {}
