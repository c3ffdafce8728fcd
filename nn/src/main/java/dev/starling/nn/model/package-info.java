/** Whole models: residual networks, GPT-2, and models described by a text. */
package dev.starling.nn.model;
