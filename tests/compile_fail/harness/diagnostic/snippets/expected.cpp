// expect: axis -1 is outside the room
// expect below: the heads of the room differ
