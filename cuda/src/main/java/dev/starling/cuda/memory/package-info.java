/** The device's memory and the way to it from the host's. */
package dev.starling.cuda.memory;
