// What every producing kernel may do to a value before it stores it: add a residual, apply an activation.
// Codes are kernel arguments, uniform over a launch, so one program serves every epilogue.
// Comparisons are written so that NaN passes through, as in ONNX Runtime.
#ifndef CODL_EPILOGUE_H
#define CODL_EPILOGUE_H

#define ACTIVATION_IDENTITY 0
#define ACTIVATION_RELU 1
#define ACTIVATION_CLIP 2
#define ACTIVATION_LEAKY_RELU 3

#define RESIDUAL_NONE 0
#define RESIDUAL_BEFORE 1
#define RESIDUAL_AFTER 2

// Scalars that an epilogue takes, last among the arguments of its kernel.
#define EPILOGUE_SCALARS int residual_order, int activation, float alpha, float beta

// Defines activate_<T>(value, activation, alpha, beta) for a float type T.
#define DEFINE_ACTIVATE(T)                                                            \
    inline T activate_##T(T value, int activation, float alpha, float beta) {         \
        if (activation == ACTIVATION_RELU) return value < (T)(0.0f) ? (T)(0.0f) : value; \
        if (activation == ACTIVATION_CLIP) {                                          \
            value = value < (T)(alpha) ? (T)(alpha) : value;                          \
            return value > (T)(beta) ? (T)(beta) : value;                             \
        }                                                                             \
        if (activation == ACTIVATION_LEAKY_RELU) return value < (T)(0.0f) ? value * (T)(alpha) : value; \
        return value;                                                                 \
    }

#endif
