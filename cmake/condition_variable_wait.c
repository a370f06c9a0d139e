/* std::condition_variable::wait() for libraries that go into wheels. Since GCC 12 libstdc++ has it a second time, as
 * GLIBCXX_3.4.30, which differs from the first in `noexcept` alone; that name would be the only one to shut out systems
 * with the libstdc++ of GCC 11, such as those of the RHEL 9 family. This one is hidden in its library, where the linker
 * takes it before libstdc++'s, and calls the first one. In C, because C++ would not let it have the name. */
__asm__(".symver first_wait, _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
void first_wait(void* condition, void* lock);

__attribute__((visibility("hidden"))) void _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(void* condition,
                                                                                                     void* lock) {
  first_wait(condition, lock);
}
