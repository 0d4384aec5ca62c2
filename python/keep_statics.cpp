// Linked with --wrap=__cxa_atexit, so that the module's static objects are not destroyed at exit. A
// daemon thread may then be in a product and use them until the process ends.
// NOLINTBEGIN(bugprone-reserved-identifier)
using Destructor = void (*)(void*);
extern "C" int __wrap___cxa_atexit(Destructor, void*, void*);
extern "C" int __wrap___cxa_atexit(Destructor, void*, void*) { return 0; }
// NOLINTEND(bugprone-reserved-identifier)
