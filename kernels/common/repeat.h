// REPEAT(COUNT, X): X(0) X(1) ... X(COUNT - 1), for register tiles whose elements are named variables.
#ifndef CODL_REPEAT_H
#define CODL_REPEAT_H

#define REPEAT_1(X) X(0)
#define REPEAT_2(X) REPEAT_1(X) X(1)
#define REPEAT_3(X) REPEAT_2(X) X(2)
#define REPEAT_4(X) REPEAT_3(X) X(3)
#define REPEAT_5(X) REPEAT_4(X) X(4)
#define REPEAT_6(X) REPEAT_5(X) X(5)
#define REPEAT_7(X) REPEAT_6(X) X(6)
#define REPEAT_8(X) REPEAT_7(X) X(7)
#define REPEAT_9(X) REPEAT_8(X) X(8)
#define REPEAT_10(X) REPEAT_9(X) X(9)
#define REPEAT_11(X) REPEAT_10(X) X(10)
#define REPEAT_12(X) REPEAT_11(X) X(11)
#define REPEAT_13(X) REPEAT_12(X) X(12)
#define REPEAT_14(X) REPEAT_13(X) X(13)
#define REPEAT_OF(COUNT, X) REPEAT_##COUNT(X)
#define REPEAT(COUNT, X) REPEAT_OF(COUNT, X)

#endif
