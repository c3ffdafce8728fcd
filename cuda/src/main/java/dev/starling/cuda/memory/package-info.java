/** The device's memory, and copies between it and the host's. */
package dev.starling.cuda.memory;
