/** The backend for NVIDIA GPUs. It exports nothing: {@code Device.of("cuda", 0)} finds it as a service. */
package dev.starling.cuda;
