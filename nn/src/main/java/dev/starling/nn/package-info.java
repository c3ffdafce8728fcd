/**
 * What a model is: {@linkplain dev.starling.nn.Layer layers} that compute and {@linkplain dev.starling.nn.Parameter
 * parameters} that training changes, and how layers are joined.
 */
package dev.starling.nn;
