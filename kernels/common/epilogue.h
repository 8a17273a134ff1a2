// What every producing kernel may do to a value before it stores it: add a residual, apply an activation.
// Codes are kernel arguments, uniform over a launch, so one program serves every epilogue.
#ifndef CODL_EPILOGUE_H
#define CODL_EPILOGUE_H

#define ACTIVATION_IDENTITY 0
#define ACTIVATION_RELU 1
#define ACTIVATION_CLIP 2
#define ACTIVATION_LEAKY_RELU 3
#define ACTIVATION_ELU 4
#define ACTIVATION_SIGMOID 5
#define ACTIVATION_HARD_SIGMOID 6
#define ACTIVATION_HARD_SWISH 7
#define ACTIVATION_TANH 8

#define RESIDUAL_NONE 0
#define RESIDUAL_BEFORE 1
#define RESIDUAL_AFTER 2

// Scalars that an epilogue takes, last among the arguments of its kernel.
#define EPILOGUE_SCALARS int residual_order, int activation, float alpha, float beta

#endif
