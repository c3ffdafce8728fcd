/** Convolutions, attention, normalisation, pooling and softmax by the machine's library. */
package dev.starling.cuda.dnn;
