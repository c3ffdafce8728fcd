/** What the backend needs of a GPU, and its implementation on NVIDIA's driver. */
package dev.starling.cuda.gpu;
