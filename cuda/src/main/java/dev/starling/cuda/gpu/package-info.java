/** What the backend needs of a machine with a GPU, and that machine as NVIDIA's driver offers it. */
package dev.starling.cuda.gpu;
