// A snippet whose positive twin is wrong too.
// expect: use of undeclared identifier 'nothing'
int value = nothing;
