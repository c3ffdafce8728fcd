/** State on disk: safetensors files, and checkpoints from which a training resumes bit for bit. */
package dev.starling.nn.checkpoint;
