// A line through points, which grows.
import { THREE } from "nicegui-scene";

export default class Trail {
  create_mesh(points, colour) {
    this.count = 0;
    this.capacity = 0;
    this.mesh = new THREE.Line(new THREE.BufferGeometry(), new THREE.LineBasicMaterial({ color: colour }));
    this.mesh.frustumCulled = false;
    this.append(points);
    return this.mesh;
  }

  append(points) {
    const needed = this.count + points.length;
    if (needed >= this.capacity) {
      this.capacity = Math.max(1024, 2 * needed);
      const places = new Float32Array(3 * this.capacity);
      const before = this.mesh.geometry.getAttribute("position");
      if (before) places.set(before.array);
      this.mesh.geometry.dispose();
      this.mesh.geometry = new THREE.BufferGeometry();
      this.mesh.geometry.setAttribute("position", new THREE.BufferAttribute(places, 3));
    }
    const attribute = this.mesh.geometry.getAttribute("position");
    points.forEach((point, i) => attribute.array.set(point, 3 * (this.count + i)));
    attribute.needsUpdate = true;
    this.count = needed;
    this.mesh.geometry.setDrawRange(0, this.count);
  }
}
